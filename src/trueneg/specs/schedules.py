"""Schedules: numbers that change over a run."""

from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Discriminator, Tag

from trueneg.specs.settings import Fraction, NonNegative, OpenFraction, Settings, Sweepable


class WarmStart(Settings):
    """One value at first, then another for the rest of the run: in BCL's warm-start, 0.5, then 0.7
    for the last quarter.
    """

    schedule: Literal["warm-start"]
    before: NonNegative = 0.5
    """initial value"""
    after: NonNegative = 0.7
    """final value"""
    at: OpenFraction = 0.75
    """fraction of the run after which the value changes"""


class Linear(Settings):
    """A change from one value to another in equal steps: BCL's β goes from 2 to 0 over 400 epochs,
    one step every 20 epochs.
    """

    schedule: Literal["linear"]
    start: NonNegative
    """value at the start"""
    end: NonNegative
    """value reached at the end of the last step"""
    every: Fraction = 0.05
    """length of a step, as a fraction of the run"""


class AdjustedSchedule(Settings):
    """A value measured on validation images: BCL's timely-adjust sets α to the macro-AUC (Eq. 15)
    every 20 epochs (of 400). Under its Eqs. 13 and 14, the AUC is ½ + (2α − 1)/3 instead.
    """

    NEEDS: ClassVar[str] = "labels"

    schedule: Literal["adjusted"]
    every: Fraction = 0.05
    """interval between two measurements, as a fraction of the run"""
    link: Literal["auc", "model"] = "auc"
    """auc: α is the macro-AUC, as the paper says; model: the α that has this AUC under Eqs. 13 and
    14, ½ + 3/2·(AUC − ½)
    """


Number = TypeVar("Number")
Schedules = TypeVar("Schedules")
# A sweepable number, or a mapping: one of the schedules. The discriminator limits error messages to
# the intended branch.
Scheduled = Sweepable[
    Annotated[
        Annotated[Number, Tag("number")]
        | Annotated[Schedules, Discriminator("schedule"), Tag("scheduled")],
        Discriminator(
            lambda value: "scheduled" if isinstance(value, (dict, Settings)) else "number"
        ),
    ]
]

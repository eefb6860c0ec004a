"""What is known of an evaluation task without its code: its settings, what it measures, and how that is shown."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from trueneg.specs.settings import Settings

SPLITS = ("validation", "test")


class Metric(NamedTuple):
    """How one kind of metric is shown."""

    name: str
    scale: float = 1.0
    unit: str = ""
    unit_of_differences: str = ""
    decimals: int = 1
    higher_is_better: bool = True


class Task(Settings):
    """Settings of an evaluation task: a section of a study's ``evaluation``, if there is anything to set.

    Attributes:
        ROWS: names of the task in the rows, which a primary contrast may name.
        OPTIONAL: description of a section without which the task is not measured; None: the task is always measured.
        NEEDS: what the data must have.
        METRICS: how its metrics are shown; others are plain numbers, of which a larger one is better.
        CHANCE: metrics whose level without learning is known, and this level.
    """

    ROWS: ClassVar[tuple[str, ...]]
    OPTIONAL: ClassVar[str | None] = None
    NEEDS: ClassVar[Literal["labels", "boxes"] | None] = None
    METRICS: ClassVar[Mapping[str, Metric]] = {}
    CHANCE: ClassVar[Mapping[str, float]] = {}

    def columns(self, row: str) -> dict[str, list[Any]]:
        """The values of the key columns that apply to one of :attr:`ROWS`."""
        return {}


def percent(name: str) -> Metric:
    """A share, shown in percent."""
    return Metric(name, 100.0, "%", "points")


ACCURACY = {"accuracy": percent("accuracy")}
AUC = {"AUC": Metric("AUC", decimals=3)}
RECALL = {"R": percent("mean recall"), "MedR": Metric("median rank", unit_of_differences="ranks", higher_is_better=False)}
PRECISION = {"Prec": percent("mean precision")}

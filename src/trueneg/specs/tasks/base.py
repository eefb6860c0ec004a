"""Declarations of evaluation tasks, separate from their code: settings, metrics and how metrics are displayed."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from trueneg.specs.settings import Settings

SPLITS = ("validation", "test")


class Metric(NamedTuple):
    """Display format of a metric."""

    name: str
    scale: float = 1.0
    unit: str = ""
    unit_of_differences: str = ""
    decimals: int = 1
    higher_is_better: bool = True


class Task(Settings):
    """Settings of an evaluation task: a section of a study's ``evaluation`` if the task has any settings.

    Attributes:
        ROWS: names of the task in the rows; a primary contrast may refer to them.
        OPTIONAL: description of the section that enables the task; None: the task is always measured.
        NEEDS: annotations that the data must provide.
        METRICS: display formats of its metrics; other metrics are plain numbers, and larger is better.
        CHANCE: chance level by metric, where known.
    """

    ROWS: ClassVar[tuple[str, ...]]
    OPTIONAL: ClassVar[str | None] = None
    NEEDS: ClassVar[Literal["labels", "boxes"] | None] = None
    METRICS: ClassVar[Mapping[str, Metric]] = {}
    CHANCE: ClassVar[Mapping[str, float]] = {}

    def columns(self, row: str) -> dict[str, list[Any]]:
        """Return the values of the key columns that apply to one of :attr:`ROWS`."""
        return {}


def percent(name: str) -> Metric:
    """Return the display format of a share, in percent."""
    return Metric(name, 100.0, "%", "points")


ACCURACY = {"accuracy": percent("accuracy")}
AUC = {"AUC": Metric("AUC", decimals=3)}
RECALL = {"R": percent("mean recall"), "MedR": Metric("median rank", unit_of_differences="ranks", higher_is_better=False)}
PRECISION = {"Prec": percent("mean precision")}

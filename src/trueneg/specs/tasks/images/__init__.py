"""Tasks that evaluate image encoders."""

from collections.abc import Iterator
from typing import Any, Literal

from trueneg.specs.tasks.base import (
    ACCURACY,
    CHANCE,
    EACH_CLASS,
    SPLITS,
    Task,
    by_class,
)
from trueneg.stats.measurement import Measurement

LabelPool = Literal["imbalanced", "all"]
LARGEST_CLASS = Measurement("largest class", "share")


class AccuracyTask(Task):
    """Classification of single-label images."""

    METRICS = ACCURACY | CHANCE

    def splits(self, study: Any, measured: Measurement) -> tuple[str, ...]:
        return SPLITS if study.dataset.validation else ("test",)

    def chance(self, measured: Measurement) -> dict[Measurement, str] | None:
        """Return the share of the largest class for all images; 1 / classes for groups of classes,
        and in earlier rows.
        """
        if measured.metric != "accuracy":
            return None
        largest = {} if measured.group else {LARGEST_CLASS: "the share of the largest class"}
        return largest | {
            Measurement(measured.task, "chance"): "1 / classes"
            + ", as the largest was not measured" * bool(largest)
        }


def accuracies(
    study: Any, task: str, labels: str, fraction: float | None = None
) -> Iterator[Measurement]:
    """Yield the accuracies of a classifier: overall, balanced, on common and on rare classes, and
    on each class.
    """
    rare = ["rare"] if study.dataset.rare_classes else []
    yield from by_class(
        Measurement(task, "accuracy", labels, fraction), "macro", "common", *rare, EACH_CLASS
    )

"""Tasks that evaluate image encoders."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from trueneg.specs.tasks.base import ACCURACY, CHANCE, EACH_CLASS, SPLITS, DisplayedMetric, Task, by_class
from trueneg.stats.measurement import Measurement

LabelPool = Literal["imbalanced", "all"]


class AccuracyTask(Task):
    """Classification of single-label images."""

    METRICS: ClassVar[dict[str, DisplayedMetric]] = ACCURACY | CHANCE

    def splits(self, study: Any) -> tuple[str, ...]:
        return SPLITS if study.dataset.validation else ("test",)

    def chance(self, measured: Measurement) -> Measurement | None:
        return Measurement(measured.task, "chance") if measured.metric == "accuracy" else None


def accuracies(study: Any, task: str, labels: str, fraction: float | None = None) -> Iterator[Measurement]:
    """Yield the accuracies of a classifier: overall, on common and on rare classes, and on each class."""
    rare = ["rare"] if study.dataset.rare_classes else []
    yield from by_class(Measurement(task, "accuracy", labels, fraction), "common", *rare, EACH_CLASS)

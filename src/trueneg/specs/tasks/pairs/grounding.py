"""Grounding of sentences in images."""

from collections.abc import Iterator
from typing import Any, ClassVar

from trueneg.specs.settings import NonNegative
from trueneg.specs.tasks.base import EACH_CLASS, DisplayedMetric, Task, by_class
from trueneg.stats.measurement import Measurement


class GroundingSettings(Task):
    """Localisation of sentences in images, evaluated against annotated boxes."""

    ROWS = ("grounding",)
    NEEDS = "boxes"
    METRICS: ClassVar = {
        "CNR": DisplayedMetric("CNR", decimals=3),
        "CNR signed": DisplayedMetric("CNR with its sign", decimals=3),
        "mIoU": DisplayedMetric("mean IoU", decimals=3),
        "phrases": DisplayedMetric("phrases", higher_is_better=None),
    }
    # that of CNR, an absolute value, is above 0 and depends on the heatmaps
    CHANCE: ClassVar = {"CNR signed": 0.0}

    smoothing: NonNegative = 0.0
    """standard deviation of Gaussian smoothing, in grid cells (BioViL: 1.5)"""

    def rows(self, study: Any) -> Iterator[Measurement]:
        for measured in super().rows(study):
            yield from by_class(
                measured, *(("macro", EACH_CLASS) if measured.metric != "phrases" else ())
            )

    def splits(self, study: Any, measured: Measurement) -> tuple[str, ...]:
        return study.dataset.boxed_splits


TASK = GroundingSettings

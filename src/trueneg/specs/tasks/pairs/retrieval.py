"""Retrieval between images and sentences, and between images and reports."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.base import CHANCE, RECALL
from trueneg.specs.tasks.pairs import ListSettings
from trueneg.stats.measurement import Measurement


class RetrievalSettings(ListSettings):
    """Retrieval of images from sentences or reports, and the reverse."""

    ROWS = BY_SAMPLE = ("retrieval sentence", "retrieval report")
    METRICS = RECALL | CHANCE

    ks: list[Count] = Field([1, 5, 10, 50, 100], min_length=1)
    """list lengths k of R@k"""

    def relevance(self, study: Any) -> dict[str, list[str]]:
        truth = ["truth"] if study.dataset.truth_known else []
        return {"retrieval sentence": ["report", *truth], "retrieval report": ["report"]}

    def rows(self, study: Any) -> Iterator[Measurement]:
        for measured in super().rows(study):
            yield measured
            yield from self.chance(measured) or ()

    def chance(self, measured: Measurement) -> dict[Measurement, str] | None:
        return {measured._replace(metric="chance"): ""} if measured.metric == "R" else None


TASK = RetrievalSettings

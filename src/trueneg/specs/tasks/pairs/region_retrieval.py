"""Retrieval between phrases and boxed regions."""

from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.pairs import ListSettings
from trueneg.stats.measurement import Measurement


class RegionRetrievalSettings(ListSettings):
    """Retrieval of boxes from sentences, and of sentences from boxes, using RoIAlign."""

    ROWS = ("region retrieval",)
    OPTIONAL = "measured only if given"
    NEEDS = "boxes"

    ks: list[Count] = Field([10, 50, 100], min_length=1)
    """list lengths k of R@k"""

    def relevance(self, study: Any) -> dict[str, list[str]]:
        meaning = "truth" if study.dataset.truth_known else "finding"
        return {"region retrieval": ["pair", "pair or tie", "sentence", meaning]}

    def splits(self, study: Any, measured: Measurement) -> tuple[str, ...]:
        return study.dataset.boxed_splits


TASK = RegionRetrievalSettings

"""Retrieval between phrases and boxed regions."""

from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.base import RECALL, Task
from trueneg.specs.tasks.pairs import BOTH_WAYS, of_retrieval


class RegionRetrievalSettings(Task):
    """Boxes by sentences and sentences by boxes, by RoIAlign."""

    ROWS = ("region retrieval",)
    OPTIONAL = "measured where given"
    NEEDS = "boxes"
    METRICS = RECALL

    ks: list[Count] = Field([10, 50, 100], min_length=1, description="k of R@k")

    def columns(self, row: str) -> dict[str, list[Any]]:
        return of_retrieval(self.ks, BOTH_WAYS, ("pair", "pair or tie", "sentence", "truth"))


TASK = RegionRetrievalSettings

"""Retrieval between images and sentences, and between images and reports."""

from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.base import RECALL, Task
from trueneg.specs.tasks.pairs import BOTH_WAYS, of_retrieval


class RetrievalSettings(Task):
    """Images by sentences and sentences by images, reports likewise."""

    ROWS = ("retrieval sentence", "retrieval report")
    METRICS = RECALL

    ks: list[Count] = Field([1, 5, 10, 50, 100], min_length=1, description="k of R@k")

    def columns(self, row: str) -> dict[str, list[Any]]:
        relevant = ("report", "truth") if row == "retrieval sentence" else ("report",)
        return of_retrieval(self.ks, BOTH_WAYS, relevant)


TASK = RetrievalSettings

"""Prec@k among the images of one label."""

from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.base import PRECISION, Task
from trueneg.specs.tasks.pairs import BY_LABEL, of_retrieval


class PrecisionSettings(Task):
    """Images of the same label by an image, and by a sentence."""

    ROWS = ("precision",)
    OPTIONAL = "measured where given"
    NEEDS = "labels"
    METRICS = PRECISION

    ks: list[Count] = Field([5, 10, 50], min_length=1, description="k of Prec@k")

    def columns(self, row: str) -> dict[str, list[Any]]:
        return of_retrieval(self.ks, BY_LABEL)


TASK = PrecisionSettings

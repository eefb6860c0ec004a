"""Retrieval between phrases and boxed regions."""

from typing import ClassVar

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.pairs import ListSettings


class RegionRetrievalSettings(ListSettings):
    """Retrieval of boxes from sentences, and of sentences from boxes, using RoIAlign."""

    ROWS = ("region retrieval",)
    OPTIONAL = "measured only if given"
    NEEDS = "boxes"
    RELEVANT: ClassVar = {"region retrieval": ["pair", "pair or tie", "sentence", "truth"]}

    ks: list[Count] = Field([10, 50, 100], min_length=1, description="list lengths k of R@k")


TASK = RegionRetrievalSettings

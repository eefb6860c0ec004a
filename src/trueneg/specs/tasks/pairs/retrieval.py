"""Retrieval between images and sentences, and between images and reports."""

from typing import ClassVar

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.pairs import ListSettings


class RetrievalSettings(ListSettings):
    """Retrieval of images from sentences or reports, and the reverse."""

    ROWS = ("retrieval sentence", "retrieval report")
    RELEVANT: ClassVar = {"retrieval sentence": ["report", "truth"], "retrieval report": ["report"]}

    ks: list[Count] = Field([1, 5, 10, 50, 100], min_length=1, description="list lengths k of R@k")


TASK = RetrievalSettings

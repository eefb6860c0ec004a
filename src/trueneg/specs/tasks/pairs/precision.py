"""Prec@k among images with a single label."""

from typing import ClassVar, Literal

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.base import PRECISION
from trueneg.specs.tasks.pairs import ListSettings


class PrecisionSettings(ListSettings):
    """Retrieval of images with the same label, from an image or sentence query."""

    ROWS = ("precision",)
    OPTIONAL = "measured only if given"
    NEEDS: ClassVar[Literal["labels"] | None] = "labels"
    METRICS = PRECISION
    DIRECTIONS: ClassVar = ("image to image", "text to image")

    ks: list[Count] = Field([5, 10, 50], min_length=1, description="list lengths k of Prec@k")


TASK = PrecisionSettings

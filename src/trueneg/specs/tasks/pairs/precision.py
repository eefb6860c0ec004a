"""Prec@k among the images of one label."""

from typing import ClassVar, Literal

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.base import PRECISION
from trueneg.specs.tasks.pairs import ListSettings


class PrecisionSettings(ListSettings):
    """Retrieval of images with the same label, from an image or sentence query."""

    ROWS = ("precision",)
    OPTIONAL = "measured where given"
    NEEDS: ClassVar[Literal["labels"] | None] = "labels"
    METRICS = PRECISION
    DIRECTIONS: ClassVar = ("image to image", "text to image")

    ks: list[Count] = Field([5, 10, 50], min_length=1, description="k of Prec@k")


TASK = PrecisionSettings

"""Prec@k among images with a single label."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.base import PRECISION, by_class
from trueneg.specs.tasks.pairs import ListSettings
from trueneg.stats.measurement import Measurement


class PrecisionSettings(ListSettings):
    """Retrieval of images that have the label of the query, which is an image or a sentence."""

    ROWS = ("precision",)
    OPTIONAL = "measured only if given"
    NEEDS = "labels with prompts"
    METRICS = PRECISION
    DIRECTIONS = ("image to image", "text to image")

    ks: list[Count] = Field([5, 10, 50], min_length=1)
    """list lengths k of Prec@k"""

    def rows(self, study: Any) -> Iterator[Measurement]:
        """Yield the precision at each k in each direction, and their mean."""
        average = Measurement(self.ROWS[0], "Prec")
        for direction in self.DIRECTIONS:
            for k in self.ks:
                yield from by_class(
                    average._replace(direction=direction, k=k), *self.classes(study)
                )
        yield average

    def classes(self, study: Any) -> Sequence[str]:
        """Return the values of ``group`` in rows of a single label."""
        return study.dataset.label_names


TASK = PrecisionSettings

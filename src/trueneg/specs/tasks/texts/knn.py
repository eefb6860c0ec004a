"""The nearest-neighbour vote."""

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from trueneg.specs.settings import Count
from trueneg.specs.tasks.base import DisplayedMetric
from trueneg.specs.tasks.texts import LabelTask
from trueneg.stats.measurement import Measurement


class TextNeighbourSettings(LabelTask):
    """Vote of the k nearest training texts by cosine similarity, one vote each."""

    ROWS = ("knn",)
    METRICS: ClassVar = LabelTask.METRICS | {"neighbours": DisplayedMetric("neighbours", higher_is_better=None)}

    neighbours: Count = Field(5, description="k; at most the number of training texts of the smallest label")

    def rows(self, study: Any) -> Iterator[Measurement]:
        yield from (each for each in super().rows(study) if each.metric != "neighbours" or each.group is None)


TASK = TextNeighbourSettings

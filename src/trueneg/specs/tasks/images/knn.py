"""The nearest-neighbour vote."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count, Positive
from trueneg.specs.tasks.base import ACCURACY, CHANCE, DisplayedMetric
from trueneg.specs.tasks.images import AccuracyTask, LabelPool, accuracies
from trueneg.stats.measurement import Measurement


class NearestNeighbourSettings(AccuracyTask):
    """Weighted k-nearest-neighbour vote by cosine similarity."""

    ROWS = BY_SAMPLE = ("knn", "mean classifier")  # both use the same label pools
    METRICS = (
        ACCURACY | CHANCE | {"neighbours": DisplayedMetric("neighbours", higher_is_better=None)}
    )

    neighbours: Count = 20
    """k; limited to the size of the smallest class in the pool"""
    temperature: Positive = 0.1
    """a neighbour's weight is exp(cosine / temperature)"""
    label_pools: list[LabelPool] = Field(["imbalanced", "all"], min_length=1)
    """labelled images, as in `linear_probe`"""

    def rows(self, study: Any) -> Iterator[Measurement]:
        for name in self.ROWS:
            yield Measurement(name, "chance")
            for pool in self.label_pools:
                yield from accuracies(study, name, pool)
        yield from (Measurement("knn", "neighbours", pool) for pool in self.label_pools)


TASK = NearestNeighbourSettings

"""The nearest-neighbour vote."""

from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count, Positive
from trueneg.specs.tasks.base import ACCURACY, Task
from trueneg.specs.tasks.images import LabelPool


class NearestNeighbourSettings(Task):
    """Weighted k-nearest-neighbour vote by cosine similarity."""

    ROWS = ("knn", "mean classifier")  # both use the same label pools
    METRICS = ACCURACY

    neighbours: Count = Field(20, description="k; at most the size of the smallest class in the pool")
    temperature: Positive = Field(0.1, description="a neighbour's weight is exp(cosine / temperature)")
    label_pools: list[LabelPool] = Field(["imbalanced", "all"], min_length=1, description="as for linear_probe")

    def columns(self, row: str) -> dict[str, list[Any]]:
        return {"labels": self.label_pools}


TASK = NearestNeighbourSettings

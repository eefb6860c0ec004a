"""Tasks that evaluate image–text networks."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from trueneg.specs.settings import Count, Fraction, NonNegative, Positive
from trueneg.specs.tasks.base import AUC, RECALL, Task


class ListSettings(Task):
    """Retrieval, evaluated on the first k results.

    Attributes:
        DIRECTIONS: retrieval directions.
        RELEVANT: relevance criteria, by the task's name in the rows, if there are several.
    """

    METRICS = RECALL
    DIRECTIONS: ClassVar = ("text to image", "image to text")
    RELEVANT: ClassVar[Mapping[str, list[str]]] = {}

    ks: list[Count]

    def columns(self, row: str) -> dict[str, list[Any]]:
        labels = {"labels": self.RELEVANT[row]} if row in self.RELEVANT else {}
        # None stands for the mean over the others.
        return labels | {"direction": [*self.DIRECTIONS, None], "k": [*self.ks, None]}


class ClassifierSettings(Task):
    """A classifier trained on fractions of the labels."""

    NEEDS = "labels"
    METRICS = AUC
    CHANCE: ClassVar = {"AUC": 0.5}

    fractions: list[Fraction] = Field([0.01, 0.1, 1.0], min_length=1, description="fractions of the labels to train on")
    epochs: Count = Field(20, description="passes over the labelled images")
    batch_size: Count = Field(64, description="labelled images per step")
    learning_rate: Positive = Field(1e-4, description="learning rate of Adam")
    weight_decay: NonNegative = Field(1e-6, description="weight decay of Adam")

    def columns(self, row: str) -> dict[str, list[Any]]:
        return {"fraction": self.fractions}

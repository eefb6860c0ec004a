"""Tasks that measure image–text networks."""

from typing import Any, ClassVar

from pydantic import Field

from trueneg.specs.settings import Count, Fraction, NonNegative, Positive
from trueneg.specs.tasks.base import AUC, Task

BOTH_WAYS = ("text to image", "image to text")
BY_LABEL = ("image to image", "text to image")


def of_retrieval(ks: list[int], directions: tuple[str, ...], relevant: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    """The values of a retrieval's key columns; None stands for the mean over the others."""
    return ({"labels": list(relevant)} if relevant else {}) | {"direction": [*directions, None], "k": [*ks, None]}


class ClassifierSettings(Task):
    """A classifier that is trained with shares of the labels."""

    NEEDS = "labels"
    METRICS = AUC
    CHANCE: ClassVar = {"AUC": 0.5}

    fractions: list[Fraction] = Field([0.01, 0.1, 1.0], min_length=1, description="shares of the labels to train on")
    epochs: Count = Field(20, description="passes over the labelled images")
    batch_size: Count = Field(64, description="labelled images a step")
    learning_rate: Positive = Field(1e-4, description="of Adam")
    weight_decay: NonNegative = Field(1e-6, description="of Adam")

    def columns(self, row: str) -> dict[str, list[Any]]:
        return {"fraction": self.fractions}

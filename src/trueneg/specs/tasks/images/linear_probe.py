"""The linear probe of image studies."""

from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count, Fraction, NonNegative, Positive
from trueneg.specs.tasks.base import ACCURACY, Task
from trueneg.specs.tasks.images import LabelPool


class LinearProbeSettings(Task):
    """A linear classifier on the frozen encoder, trained with Adam and cross-entropy."""

    ROWS = ("linear probe",)
    METRICS = ACCURACY

    epochs: Count = Field(100, description="passes over the labelled images")
    batch_size: Count = Field(512, description="labelled images per step")
    learning_rate: Positive = Field(1e-3, description="learning rate of Adam")
    weight_decay: NonNegative = Field(1e-6, description="weight decay of Adam")
    label_fractions: list[Fraction] = Field([1.0], min_length=1, description="fractions of the labels to train on")
    label_pools: list[LabelPool] = Field(
        ["imbalanced", "all"], min_length=1, description="labelled images: the imbalanced subset, or all training images"
    )

    def columns(self, row: str) -> dict[str, list[Any]]:
        return {"labels": self.label_pools, "fraction": sorted(self.label_fractions)}


TASK = LinearProbeSettings

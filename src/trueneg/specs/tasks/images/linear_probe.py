"""The linear probe of image studies."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count, Fraction, NonEmpty, NonNegative, Positive
from trueneg.specs.tasks.images import AccuracyTask, LabelPool, accuracies
from trueneg.stats.measurement import Measurement


class LinearProbeSettings(AccuracyTask):
    """A linear classifier on the frozen encoder, trained with Adam and cross-entropy."""

    ROWS = BY_SAMPLE = ("linear probe",)

    epochs: Count = 100
    """passes over the labelled images; few steps favour encoders with longer features"""
    batch_size: Count = 512
    """labelled images per step"""
    learning_rate: Positive = 1e-3
    """learning rate of Adam"""
    weight_decay: NonNegative = 1e-6
    """weight decay of Adam"""
    label_fractions: NonEmpty[Fraction] = Field([1.0])
    """fractions of the labels to train on"""
    label_pools: NonEmpty[LabelPool] = Field(["imbalanced", "all"])
    """the imbalanced subset, or all training images"""

    def rows(self, study: Any) -> Iterator[Measurement]:
        yield Measurement(self.ROWS[0], "chance")
        for pool in self.label_pools:
            for fraction in sorted(self.label_fractions):
                yield from accuracies(study, self.ROWS[0], pool, fraction)


TASK = LinearProbeSettings

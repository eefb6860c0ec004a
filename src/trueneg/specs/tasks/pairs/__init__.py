"""Tasks that evaluate image–text networks."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from trueneg.specs.settings import Count, Fraction, NonNegative, Positive
from trueneg.specs.tasks.base import AUC, RECALL, Task, by_class
from trueneg.stats.measurement import Measurement


class ListSettings(Task):
    """Retrieval, evaluated on the first k results.

    Attributes:
        DIRECTIONS: retrieval directions.
    """

    METRICS = RECALL
    DIRECTIONS: ClassVar = ("text to image", "image to text")

    ks: list[Count]

    def relevance(self, study: Any) -> Mapping[str, list[str]]:
        """Map each task name in the rows to its relevance criteria."""
        raise NotImplementedError

    def rows(self, study: Any) -> Iterator[Measurement]:
        """Yield the recall at each k and the median rank in each direction, and their means."""
        for name, criteria in self.relevance(study).items():
            for measured in (Measurement(name, "R", labels) for labels in criteria):
                for direction in self.DIRECTIONS:
                    yield from (measured._replace(direction=direction, k=k) for k in self.ks)
                    yield measured._replace(metric="MedR", direction=direction)
                yield measured
                yield measured._replace(metric="MedR")


class ClassifierSettings(Task):
    """A classifier trained on fractions of the labels."""

    NEEDS = "labels"
    METRICS = AUC
    CHANCE: ClassVar = {"AUC": 0.5}

    fractions: list[Fraction] = Field([0.01, 0.1, 1.0], min_length=1)
    """fractions of the labels to train on"""
    epochs: Count = 20
    """passes over the labelled images"""
    batch_size: Count = 64
    """labelled images per step"""
    learning_rate: Positive = 1e-4
    """learning rate of Adam"""
    weight_decay: NonNegative = 1e-6
    """weight decay of Adam"""

    def rows(self, study: Any) -> Iterator[Measurement]:
        for fraction in self.fractions:
            yield from by_class(
                Measurement(self.ROWS[0], "AUC", fraction=fraction), *study.dataset.label_names
            )

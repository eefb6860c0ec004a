"""The share of the largest class, which is the accuracy of always answering it."""

from typing import ClassVar

from trueneg.specs.tasks.base import DisplayedMetric
from trueneg.specs.tasks.images import LARGEST_CLASS, AccuracyTask


class LargestClass(AccuracyTask):
    """The chance level of accuracies on all images; measured in every image study."""

    ROWS = (LARGEST_CLASS.task,)
    METRICS: ClassVar = {
        LARGEST_CLASS.metric: DisplayedMetric(
            "share of the largest class", 100.0, "%", higher_is_better=None
        )
    }


TASK = LargestClass

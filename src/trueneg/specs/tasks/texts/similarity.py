"""The agreement of similarities with ratings."""

from typing import Any, ClassVar

from trueneg.specs.tasks.base import DisplayedMetric, Task
from trueneg.stats.measurement import Measurement


class Similarity(Task):
    """Rank correlation of cosine similarities with the ratings of pairs of texts."""

    ROWS = ("similarity",)
    NEEDS = "rated pairs"
    METRICS: ClassVar = {"Spearman": DisplayedMetric("Spearman correlation", decimals=3)}
    CHANCE: ClassVar = {"Spearman": 0.0}

    def splits(self, study: Any, measured: Measurement) -> tuple[str, ...]:
        """Return the test split: there is one table of ratings, and what selected a variant could not report on it."""
        return ("test",)


TASK = Similarity

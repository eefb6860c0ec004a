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
        """Return only the test split: ratings that had selected a variant could not evaluate it,
        and there is one table.
        """
        return ("test",)


TASK = Similarity

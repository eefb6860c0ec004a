"""Retrieval of positives, or of texts with the label of the query."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from trueneg.specs.settings import Count, NonEmpty
from trueneg.specs.tasks.base import CHANCE, RECALL, DisplayedMetric
from trueneg.specs.tasks.texts import TextTask
from trueneg.stats.measurement import Measurement

CUTOFF = 10  # of nDCG, as is usual


class TextRetrievalSettings(TextTask):
    """Retrieval of an anchor's positives, if pairs are given; otherwise, of training texts with the
    label of a held-out text.
    """

    ROWS = BY_SAMPLE = ("retrieval",)
    NEEDS = "given pairs or labels"
    METRICS = (
        {"R": RECALL["R"]}
        | CHANCE
        | {name: DisplayedMetric(name, decimals=3) for name in ("MRR", "nDCG")}
    )

    ks: NonEmpty[Count] = Field(
        [1, 5, 10],
        description="list lengths k of R@k: the share of queries with a hit among the first k",
    )

    def rows(self, study: Any) -> Iterator[Measurement]:
        lengths: dict[str, list[Any]] = {
            "R": self.ks,
            "chance": self.ks,
            "MRR": [None],
            "nDCG": [CUTOFF],
        }
        for measured in super().rows(study):
            yield from (measured._replace(k=k) for k in lengths[measured.metric])


TASK = TextRetrievalSettings

"""Retrieval of positives, or of texts with the label of the query."""

import itertools
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from trueneg.specs.settings import Boolean, Count, NonEmpty
from trueneg.specs.tasks.base import CHANCE, RECALL, DisplayedMetric, percent
from trueneg.specs.tasks.texts import TextTask
from trueneg.stats.measurement import Measurement

CUTOFF = 10  # of nDCG and MRR, as is usual
OF_ALL = ("MAP", "R-precision")  # depend on the ranks of all right answers
RECALL_OF_ALL = "recall"  # so does recall@k, unlike R@k
BY_LABEL = " by label"  # after the labels of rows: every text with the query's label is right


class TextRetrievalSettings(TextTask):
    """Retrieval of an anchor's positives, if pairs are given; otherwise, of training texts with the
    label of a held-out text.
    """

    ROWS = BY_SAMPLE = ("retrieval",)
    NEEDS = "given pairs or labels"
    METRICS = (
        {"R": RECALL["R"], RECALL_OF_ALL: percent("mean share of right answers found")}
        | CHANCE
        | {name: DisplayedMetric(name, decimals=3) for name in ("MRR", "nDCG", *OF_ALL)}
    )

    ks: NonEmpty[Count] = Field([1, 5, 10])
    """list lengths k of R@k: the share of queries with a hit among the first k"""

    all_answers: Boolean = False
    """also MAP, R-precision, MRR@10 and recall@k, the share of a query's right answers among the
    first k; given pairs with labels are also judged by label, so that other right answers count
    """

    def rows(self, study: Any) -> Iterator[Measurement]:
        lengths: dict[str, list[Any]] = {
            "R": self.ks,
            "chance": self.ks,
            "MRR": [None],
            "nDCG": [CUTOFF],
        }
        if self.all_answers:
            lengths |= {metric: [None] for metric in OF_ALL} | {"chance": [*self.ks, None]}
            lengths |= {RECALL_OF_ALL: self.ks, "MRR": [None, CUTOFF]}
        judged = [""]
        if self.all_answers and study.dataset.labelled and not study.positives_by_label:
            judged.append(BY_LABEL)
        for measured, by in itertools.product(super().rows(study), judged):
            for k in lengths.get(measured.metric, []):
                yield measured._replace(k=k, labels=f"{measured.labels}{by}")


TASK = TextRetrievalSettings

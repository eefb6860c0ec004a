"""Sentences of reports and their relation to images: in the image's own report, known to be true of
it, or neither.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import Series

from trueneg.data.pairs.pair_source import PairSource

RELATIONS = OTHER, TRUE, OWN = "not true of the image", "true of the image", "own pair"


class Said(NamedTuple):
    """T distinct sentences from the reports of n images.

    Attributes:
        texts: the T sentences.
        own: (T, n) bool, whether the sentence is in the image's report.
        true: (T, n) bool, whether the sentence is known to be true of the image, regardless of its
            report.
        by_report: sentence indices of each report.
    """

    texts: list[str]
    own: ndarray
    true: ndarray
    by_report: dict[str, frozenset[int]]

    @property
    def relation(self) -> ndarray:
        """Index into :data:`RELATIONS` of each sentence's relation to each image, (T, n) int8.

        A sentence of another report that is true of the image is a false negative; if no class is
        known, there are none.
        """
        return np.where(self.own, RELATIONS.index(OWN), self.true).astype(np.int8)


def said_of(source: PairSource, indices: ndarray) -> Said:
    """Collect the distinct sentences from the reports of the images at `indices`."""
    reports = source.reports[indices]
    table = source.sentences[source.sentences["report"].isin(reports)].sort_values(
        ["report", "index"], kind="stable"
    )
    numbers, texts = pd.factorize(table["sentence"], sort=True)
    by_report = {
        str(report): frozenset(group)
        for report, group in Series(numbers).groupby(table["report"].to_numpy())
    }
    is_own, is_true = np.zeros((2, len(texts), len(indices)), dtype=bool)
    for image, report in enumerate(reports):
        is_own[list(by_report[report]), image] = True
    classes = table["class"].to_numpy()[np.unique(numbers, return_index=True)[1]]
    has_class = classes >= 0
    is_true[has_class] = source.shown[indices][:, classes[has_class]].T
    return Said(texts.tolist(), is_own, is_true, by_report)

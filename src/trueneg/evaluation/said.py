"""The sentences of some images' reports, and which of them are said, or known to be true, of which image."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from trueneg.data.pairs.pair_source import PairSource

RELATIONS = OTHER, TRUE, OWN = "not true of the image", "true of the image", "own pair"


class Said(NamedTuple):
    """T different sentences of the reports of n images.

    Attributes:
        texts: the T sentences.
        own: (T, n) bool, whether the sentence is in the image's report.
        true: (T, n) bool, whether it is known to be true of the image, whoever said so.
        by_report: the sentences of each report.
    """

    texts: list[str]
    own: np.ndarray
    true: np.ndarray
    by_report: dict[str, frozenset[int]]

    @property
    def relation(self) -> np.ndarray:
        """(T, n) int8: the place of each sentence's relation to each image in :data:`RELATIONS`.

        A sentence of another report that is true of the image is a false negative; where no class is known, there are none.
        """
        return np.where(self.own, RELATIONS.index(OWN), self.true).astype(np.int8)


def said_of(source: PairSource, indices: np.ndarray) -> Said:
    """The sentences of the reports of some images."""
    reports = source.reports[indices]
    table = source.sentences[source.sentences["report"].isin(reports)].sort_values(["report", "index"], kind="stable")
    numbers, texts = pd.factorize(table["sentence"], sort=True)
    by_report = {str(report): frozenset(own) for report, own in pd.Series(numbers).groupby(table["report"].to_numpy())}
    own, true = np.zeros((2, len(texts), len(indices)), dtype=bool)
    for image, report in enumerate(reports):
        own[list(by_report[report]), image] = True
    classes = table["class"].to_numpy()[np.unique(numbers, return_index=True)[1]]
    known = classes >= 0
    true[known] = source.shown[indices][:, classes[known]].T
    return Said(texts.tolist(), own, true, by_report)

"""Rank correlation of similarities with ratings."""

import math
from collections.abc import Iterator, Sequence

from scipy.stats import spearmanr

from trueneg.evaluation.texts import EmbeddedTexts, Measured
from trueneg.specs.sections import Section
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EmbeddedTexts], settings: Section) -> Iterator[Measured]:
    """Yield Spearman's correlation of the cosine, of the first text as an anchor and the second as
    a positive, with the rating.

    It counts as a result of the test split: it is measured once, and selection by it would be
    selection by the result.
    """
    for run in runs:
        if len(rated := run.source.rated):
            cosines = (
                (run.anchors[rated["first"].tolist()] * run.positives[rated["second"].tolist()])
                .sum(1)
                .cpu()
                .numpy()
            )
            found = float(spearmanr(cosines, rated["score"]).statistic)
            # equal cosines, of a collapsed encoder, say nothing about the scores; all are finite
            value = 0.0 if math.isnan(found) else found
            yield run, "test", Measurement("similarity", "Spearman"), value

"""Clustering of held-out texts, compared with their labels."""

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import v_measure_score

from trueneg.evaluation.texts import EmbeddedTexts, Measured
from trueneg.evaluation.texts.knn import labelled_parts
from trueneg.randomness import seed_for
from trueneg.specs.sections import Section
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EmbeddedTexts], settings: Section) -> Iterator[Measured]:
    """Yield the V-measure of the best of ten runs of k-means (Rosenberg and Hirschberg, 2007)."""
    for run, split, part, _, samples in labelled_parts(runs):
        labels = run.labels(samples)
        clusters = KMeans(
            len(np.unique(labels)),
            n_init=10,
            random_state=seed_for(run.subset.seed, "clustering") % 2**32,
        ).fit_predict(run.rows(samples).cpu().numpy())
        yield (
            run,
            split,
            Measurement("clustering", "V-measure", part),
            v_measure_score(labels, clusters),
        )

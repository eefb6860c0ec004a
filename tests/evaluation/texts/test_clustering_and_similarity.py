"""Clusters compared with labels, and similarities compared with ratings."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
import torch

from tests.evaluation.texts.embedded import embedded_run, labelled_run, paired_run, values
from trueneg.evaluation.texts import clustering, similarity
from trueneg.stats.measurement import Measurement

V_MEASURE, SPEARMAN = (
    Measurement("clustering", "V-measure", "seen"),
    Measurement("similarity", "Spearman"),
)


def entropy(values, given=None):
    """Return the entropy of values, in nats, or their conditional entropy."""
    given = [0] * len(values) if given is None else given
    both, groups = Counter(zip(values, given, strict=True)), Counter(given)
    return -sum(
        count / len(values) * math.log(count / groups[group]) for (_, group), count in both.items()
    )


def test_the_v_measure_is_the_harmonic_mean_of_homogeneity_and_completeness():
    blobs = np.repeat([0, 1, 2], [8, 10, 6])  # far apart, so that k-means finds them
    labels = blobs.copy()
    labels[[0, 1, 10, 20, 21]] = [1, 2, 0, 0, 1]
    vectors = np.eye(3)[blobs] + 0.02 * np.random.default_rng(0).standard_normal((24, 3))
    parts = {"bank": range(24), "validation": range(12), "test": range(24)}
    run = embedded_run(vectors, labels, **parts)
    homogeneity = 1 - entropy(labels.tolist(), blobs.tolist()) / entropy(labels.tolist())
    completeness = 1 - entropy(blobs.tolist(), labels.tolist()) / entropy(blobs.tolist())
    harmonic = 2 * homogeneity * completeness / (homogeneity + completeness)
    assert values(clustering, run)["test", V_MEASURE] == pytest.approx(harmonic)
    assert 0.2 < harmonic < 0.9


def test_clusters_depend_on_the_seed_of_the_run_alone():
    first, second = values(clustering, labelled_run()), values(clustering, labelled_run())
    assert first == second
    assert {(split, measured.labels) for split, measured in first} == {
        (split, labels) for split in ("validation", "test") for labels in ("seen", "unseen")
    }
    assert values(clustering, paired_run()) == {}


def test_a_collapsed_encoder_has_no_correlation():
    run = paired_run()
    run = dataclasses.replace(
        run, anchors=torch.ones_like(run.anchors), positives=torch.ones_like(run.positives)
    )
    assert values(similarity, run) == {("test", SPEARMAN): 0.0}


def test_similarity_is_the_correlation_of_ranks_of_anchors_and_positives():
    run = paired_run()
    rated = run.source.rated.to_numpy(int).tolist()
    cosines = [float(run.anchors[first] @ run.positives[second]) for first, second, _ in rated]

    def mean_ranks(numbers):
        return [
            sum(other < number for other in numbers)
            + (1 + sum(other == number for other in numbers)) / 2
            for number in numbers
        ]

    expected = np.corrcoef(mean_ranks(cosines), mean_ranks([score for _, _, score in rated]))[0, 1]
    assert values(similarity, run) == {("test", SPEARMAN): pytest.approx(expected)}
    assert values(similarity, labelled_run()) == {}

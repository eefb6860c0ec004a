"""Multi-label linear evaluation: sigmoid classifiers on precomputed features, trained on fractions
of the labels.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from trueneg.evaluation.linear_heads import known_binary_cross_entropy, train_linear_heads
from trueneg.evaluation.pairs import EmbeddedPairs, Measured, measurable, of_classes
from trueneg.evaluation.roc import areas_by_class
from trueneg.randomness import seed_for
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.stats.measurement import Measurement

Labelled = tuple[Tensor, ndarray]  # features and labels of the same images


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield the AUC of linear probes on frozen features; labels without positives or negatives in a
    split are left out.
    """
    for run, split in itertools.product(runs, SPLITS):
        trained = measurable(run.labels("train"), run.source.label_names)
        names = [
            name
            for name in measurable(run.labels(split), run.source.label_names)
            if name in trained
        ]
        if names:
            train, held_out = (
                (run.images(part).features, run.labels(part, names)) for part in ("train", split)
            )
            areas = linear_evaluation(
                train, held_out, names, run.subset.seed, **settings["linear_probe"]
            )
            for fraction, by_class in areas.items():
                yield from of_classes(
                    run, split, Measurement("linear probe", "AUC", fraction=fraction), by_class
                )


def linear_evaluation(
    train: Labelled,
    held_out: Labelled,
    class_names: Sequence[str],
    seed: int,
    *,
    fractions: Sequence[float],
    **training: Any,
) -> dict[float, dict[str, float]]:
    """Compute the area under the ROC curve of every class on held-out images, for each fraction of
    training labels.

    This follows ReCo, section 4.3 and Table 2, except that features of the frozen encoder (before
    its projection) are computed once, whereas ReCo augments images.

    Args:
        train: features (n, D) and labels (n, C) with values 1, 0 or NaN (unknown); unknown labels
            are ignored in training.
        held_out: features (m, D) and labels (m, C) with the same values; unknown labels are
            ignored.
        class_names: C distinct names other than ``"mean"``.
        seed: the run's seed, for drawing the subsets and initialising the heads.
        fractions: fractions of the training images, each in (0, 1].
        training: see :func:`trueneg.evaluation.linear_heads.train_linear_heads`.

    Returns:
        Fraction → class → AUC; the class ``"mean"`` is the mean over classes.
    """
    (features, labels) = train
    (test_features, test_labels) = held_out
    targets = torch.from_numpy(labels).to(features)
    areas = {}
    for fraction in fractions:
        kept = torch.from_numpy(multilabel_subset(labels, fraction, seed)).to(features.device)
        probe = train_linear_heads(
            [features[kept]],
            [targets[kept]],
            len(class_names),
            known_binary_cross_entropy,
            seeds=[seed_for(seed, "linear probe")],
            **training,
        )
        areas[fraction] = areas_by_class(probe.logits([test_features])[0], test_labels, class_names)
    return areas


def multilabel_subset(labels: ndarray, fraction: float, seed: int) -> ndarray:
    """Select the samples whose labels a probe may use: about the same share of every combination of
    labels.

    The subset contains ``round(fraction · n)`` samples, at least one, plus the first positive and
    the first negative of each class if they exist, because a class cannot be learned without them.
    Samples are sorted by their labels, rarest class first, and each gets a key from a sequence that
    fills (0, 1) evenly (multiples of the golden ratio); those with the smallest keys are kept. Each
    group of samples with equal labels thus contributes nearly its exact share, and the subsets of
    one seed are NESTED: samples kept at a small fraction are kept at every larger one.

    Args:
        labels: (n, C) with values 1, 0 or NaN (unknown).
        fraction: in (0, 1].
        seed: the run's seed.

    Returns:
        Sorted int64 indices into ``labels``.

    Example:
        >>> labels = np.array([[1, 0]] * 100 + [[0, 1]] * 50 + [[1, 1]] * 50)
        >>> kept = labels[multilabel_subset(labels, 0.1, seed=0)]
        >>> len(kept), kept.sum(0).tolist()
        (20, [15, 10])
    """
    generator = np.random.default_rng(seed_for(seed, "label subset"))
    rarest_first = np.argsort(np.nansum(labels, axis=0), kind="stable")
    shuffled = generator.permutation(len(labels))
    # In lexsort, the last column is the primary key; the shuffle orders samples with equal labels.
    columns = np.nan_to_num(labels[shuffled], nan=-1.0)[:, rarest_first[::-1]]
    lined_up = shuffled[np.lexsort(columns.T)]
    keys = np.empty(len(labels))
    keys[lined_up] = (np.arange(len(labels)) * (5**0.5 - 1) / 2 + generator.random()) % 1
    kept = np.zeros(len(labels), bool)
    kept[np.argsort(keys, kind="stable")[: max(1, round(fraction * len(labels)))]] = True
    for value in (0, 1):
        first = np.where(labels == value, keys[:, None], np.inf).argmin(0)
        kept[first[(labels == value).any(0)]] = True
    return np.flatnonzero(kept)

"""Linear probe: softmax classifiers on frozen features, trained on fractions of the labels.

This is the linear evaluation of Sample-Specific Debiasing (2023), section 3.1, which does not state
its batch size.
"""

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy import ndarray

from trueneg.evaluation.images import EncodedRun, Measured, chance, of_groups
from trueneg.evaluation.linear_heads import cross_entropy, train_linear_heads
from trueneg.randomness import seed_for
from trueneg.specs.sections import Section
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)


def measure(runs: Sequence[EncodedRun], settings: Section) -> Iterator[Measured]:
    """Yield accuracies by label pool and fraction of labels; the probes of all runs are trained
    together.
    """
    training = dict(settings["linear_probe"])
    pools = training.pop("label_pools")
    fractions = sorted(training.pop("label_fractions"))
    yield from chance(runs, "linear probe")
    for pool, fraction in itertools.product(pools, fractions):
        for alike in _of_equal_sizes(runs, pool, fraction):
            yield from _of_probes(alike, pool, fraction, training)
        log.info(f"trained linear probes: {pool} labels, fraction {fraction:g}")


def _of_equal_sizes(
    runs: Sequence[EncodedRun], pool: str, fraction: float
) -> Iterable[list[EncodedRun]]:
    """Return groups of runs whose probes can be trained together. Splits are stratified, so they
    mostly have the same size for all seeds; equal images, which stay together, change that.
    """
    groups: dict[tuple[int, ...], list[EncodedRun]] = {}
    for run in runs:
        of_splits = (len(run.of_split(split)) for split in run.splits)
        sizes = (len(labelled_images(run, pool, fraction)), *of_splits)
        groups.setdefault(sizes, []).append(run)
    return groups.values()


def _of_probes(
    runs: Sequence[EncodedRun], pool: str, fraction: float, training: Section
) -> Iterator[Measured]:
    """Yield the accuracies of probes that are trained together."""
    features, labels = zip(
        *(run.of(labelled_images(run, pool, fraction)) for run in runs), strict=True
    )
    probes = train_linear_heads(
        features,
        labels,
        runs[0].classes,
        cross_entropy,
        seeds=[seed_for(run.subset.seed, "linear probe") for run in runs],
        **training,
    )
    measured = Measurement("linear probe", "accuracy", pool, fraction)
    for split in runs[0].splits:
        predicted = probes.logits([run.of_split(split) for run in runs]).argmax(2)
        for run, predictions in zip(runs, predicted, strict=True):
            yield from of_groups(run, split, measured, predictions)


def labelled_images(run: EncodedRun, pool: str, fraction: float) -> ndarray:
    """Return indices of the images whose labels a probe may use."""
    indices = run.pool(pool)
    return indices[label_subset(run.source.labels[indices], fraction, run.subset.seed)]


def label_subset(labels: ndarray, fraction: float, seed: int) -> ndarray:
    """Select the samples whose labels a probe may use: the same share of every class.

    Each class keeps ``round(fraction · n_c)`` of its samples, at least one. For a given seed, the
    subsets are
    NESTED: samples kept at a small fraction are kept at every larger one, so that fractions are
    compared with common random numbers.

    Args:
        labels: integers, shape (n,).
        fraction: in (0, 1].
        seed: the run's seed.

    Returns:
        Sorted int64 indices into ``labels``.

    Example:
        >>> labels = np.array([0] * 10 + [1] * 2)
        >>> np.bincount(labels[label_subset(labels, 0.2, seed=0)]).tolist()
        [2, 1]
    """
    order = np.random.default_rng(seed_for(seed, "label subset")).permutation(len(labels))
    members_by_class = [order[labels[order] == label] for label in np.unique(labels)]
    kept = [members[: max(1, round(fraction * len(members)))] for members in members_by_class]
    return np.sort(np.concatenate(kept))

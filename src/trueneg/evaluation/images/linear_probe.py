"""The linear probe: softmax classifiers on frozen features, for shares of the labels."""

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional

from trueneg.evaluation.images import SPLITS, EncodedRun, Measured, chance, of_groups
from trueneg.evaluation.linear_heads import LinearHeads, train_linear_heads
from trueneg.randomness import seed_for
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)


def measure(runs: Sequence[EncodedRun], settings: Mapping[str, Any]) -> Iterator[Measured]:
    """Accuracies by the pool that lends its labels and the share of these; the probes of all runs are trained at once."""
    training = dict(settings["linear_probe"])
    pools, fractions = training.pop("label_pools"), sorted(training.pop("label_fractions"))
    yield from chance(runs, "linear probe")
    for pool, fraction in itertools.product(pools, fractions):
        banks = [run.of(_labelled(run, pool, fraction)) for run in runs]
        seeds = [seed_for(run.subset.seed, "linear probe") for run in runs]
        probes = train_linear_probes(*zip(*banks, strict=True), runs[0].classes, generator_seeds=seeds, **training)
        for split in SPLITS:
            # Splits are stratified, so all seeds hold equally many images.
            predicted = probes.logits([run.of_split(split) for run in runs]).argmax(2)
            for run, predictions in zip(runs, predicted, strict=True):
                yield from of_groups(run, split, Measurement("linear probe", "accuracy", pool, fraction), predictions)
        log.info("linear probes, %s labels, fraction %g", pool, fraction)


def _labelled(run: EncodedRun, pool: str, fraction: float) -> np.ndarray:
    indices = run.pool(pool)
    return indices[label_subset(run.source.labels[indices], fraction, run.subset.seed)]


def train_linear_probes(
    features: Sequence[Tensor], labels: Sequence[Tensor], classes: int, *, generator_seeds: Sequence[int], **training: float
) -> LinearHeads:
    r"""Train H softmax classifiers at once, each as if alone.

    Head :math:`h` minimises the mean cross-entropy of :math:`W_h^\top f + b_h` by Adam, with weight decay as an L2 term of the
    gradient: the linear evaluation of Sample-Specific Debiasing (2023), section 3.1, which does not state its batch size.

    Args:
        features: H tensors (n_h, D): float32 or float64, of one device.
        labels: H tensors (n_h,): int64 in 0 … classes − 1.
        classes: C.
        generator_seeds: one per head, such as ``seed_for(seed, "linear probe")``.
        training: ``epochs``, ``batch_size``, ``learning_rate`` and ``weight_decay``, as for
            :func:`trueneg.evaluation.linear_heads.train_linear_heads`.

    Example:
        >>> import torch
        >>> features, labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
        >>> training = {"epochs": 50, "batch_size": 2, "learning_rate": 0.1, "weight_decay": 0.0}
        >>> train_linear_probes([features], [labels], 2, generator_seeds=[0], **training).logits([features]).argmax(2)
        tensor([[0, 1]])
    """
    return train_linear_heads(features, labels, classes, _cross_entropy, generator_seeds=generator_seeds, **training)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Of (H, C, b) logits, a mean over each head's samples, summed over the heads."""
    return functional.cross_entropy(logits, labels, reduction="sum") / labels.shape[1]


def label_subset(labels: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """The samples whose labels a probe may see: the same share of every class.

    Each class keeps ``round(fraction · n_c)`` of its samples, at least one. For one seed the subsets are
    NESTED: what is kept at a small fraction is kept at every larger one, so that fractions are compared with
    common random numbers.

    Args:
        labels: integers, shape (n,).
        fraction: in (0, 1].
        seed: the study's seed.

    Returns:
        Sorted int64 indices into ``labels``.

    Example:
        >>> labels = np.array([0] * 10 + [1] * 2)
        >>> np.bincount(labels[label_subset(labels, 0.2, seed=0)]).tolist()
        [2, 1]
    """
    labels = np.asarray(labels)
    order = np.random.default_rng(seed_for(seed, "label subset")).permutation(len(labels))
    members_by_class = [order[labels[order] == label] for label in np.unique(labels)]
    kept = [members[: max(1, round(fraction * len(members)))] for members in members_by_class]
    return np.sort(np.concatenate([np.empty(0, np.int64), *kept]))

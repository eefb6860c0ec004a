"""Linear evaluation with several labels per image: sigmoid classifiers on features computed once, for shares of the labels."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trueneg.evaluation.linear_heads import LinearHeads, train_linear_heads
from trueneg.evaluation.pairs import EmbeddedRun, Measured, each_split, measurable, of_classes
from trueneg.evaluation.roc import areas_by_class, known_labels
from trueneg.randomness import seed_for
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EmbeddedRun], settings: Mapping[str, Any]) -> Iterator[Measured]:
    """Areas under the ROC curve on the frozen encoder's features; classes that a split lacks are left out."""
    for run, split in each_split(runs):
        known, wanted = run.labels("train"), run.labels(split)
        both = set(measurable(known, run.source.label_names)) & set(measurable(wanted, run.source.label_names))
        names = [name for name in run.source.label_names if name in both]
        if names:
            columns, features = run.columns(names), [run.images(part).features for part in ("train", split)]
            sets = features[0], known[:, columns], features[1], wanted[:, columns]
            areas = linear_evaluation(*sets, names, seed=run.subset.seed, **settings["linear_probe"])
            for fraction, by_class in areas.items():
                yield from of_classes(run, split, Measurement("linear probe", "AUC", fraction=fraction), by_class)


def train_multilabel_probes(
    features: Sequence[Tensor], labels: Sequence[Tensor], *, generator_seeds: Sequence[int], **training: float
) -> LinearHeads:
    r"""Train H linear classifiers of C labels each at once, each as if alone.

    Head :math:`h` minimises, by Adam, the binary cross-entropy of :math:`\sigma(W_h^\top f + b_h)` averaged over the known labels
    of a batch: the linear evaluation of ReCo, section 4.3, which augments the images; features computed once cannot.

    Args:
        features: H tensors (n_h, D): float32 or float64, of one device.
        labels: H tensors (n_h, C), of the features' type: 1, 0, and NaN for an unknown label
            (:func:`trueneg.evaluation.roc.known_labels` makes them), which trains nothing.
        generator_seeds: one per head, such as ``seed_for(seed, "linear probe")``.
        training: ``epochs``, ``batch_size``, ``learning_rate`` and ``weight_decay``, as for
            :func:`trueneg.evaluation.linear_heads.train_linear_heads`.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> labels = torch.tensor([[1.0, 0.0], [0.0, torch.nan], [1.0, 1.0]])
        >>> training = {"epochs": 100, "batch_size": 512, "learning_rate": 0.1, "weight_decay": 0.0}
        >>> heads = train_multilabel_probes([features], [labels], generator_seeds=[0], **training)
        >>> (heads.logits([features])[0] > 0).int().tolist()[2]
        [1, 1]
    """
    classes = labels[0].shape[1]
    return train_linear_heads(features, labels, classes, _binary_cross_entropy, generator_seeds=generator_seeds, **training)


def linear_evaluation(
    features: Tensor,
    labels,
    test_features: Tensor,
    test_labels,
    class_names: Sequence[str],
    *,
    fractions: Sequence[float] = (0.01, 0.1, 1.0),
    seed: int,
    **training,
) -> dict[float, dict[str, float]]:
    """The area under the ROC curve of every class on test images, by the share of labels that was trained on.

    ReCo, section 4.3 and Table 2, on features of the frozen encoder (before its projection).

    Args:
        features: (n, D).
        labels: (n, C) of 1, 0, −1 (uncertain) and NaN (missing); the last two train nothing.
        test_features: (m, D).
        test_labels: (m, C), likewise; the last two do not count.
        class_names: C distinct names, none ``"mean"``.
        fractions: shares of the training images, each in (0, 1].
        seed: the study's; it draws the subsets and starts the heads.
        training: options of :func:`train_multilabel_probes`, such as ``epochs``.

    Returns:
        Fraction → class → area; the class ``"mean"`` is the mean over classes.
    """
    targets = torch.from_numpy(known_labels(labels)).to(features)
    subsets = [torch.from_numpy(multilabel_subset(labels, fraction, seed)).to(features.device) for fraction in fractions]
    probes = train_multilabel_probes(
        [features[subset] for subset in subsets],
        [targets[subset] for subset in subsets],
        generator_seeds=[seed_for(seed, "linear probe")] * len(subsets),
        **training,
    )
    results = {}
    for fraction, logits in zip(fractions, probes.logits([test_features] * len(subsets)), strict=True):
        areas = areas_by_class(logits, test_labels, class_names)
        results[fraction] = {**areas, "mean": float(np.mean(list(areas.values())))}
    return results


def multilabel_subset(labels, fraction: float, seed: int) -> np.ndarray:
    """The samples whose labels a probe may see: about the same share of every combination of labels.

    ``round(fraction · n)`` samples, at least one, and beyond that for each class the first positive and the first
    negative, if there is one: without them a class could not be learned. Samples are lined up by their labels, the
    rarest class first, and each gets a key from a sequence that fills (0, 1) evenly (multiples of the golden ratio);
    the smallest keys are kept. So a run of alike samples gives nearly its exact share, and the subsets of one seed are
    NESTED: what is kept at a small fraction is kept at every larger one.

    Args:
        labels: (n, C) of 1, 0, −1 (uncertain) and NaN (missing).
        fraction: in (0, 1].
        seed: the study's seed.

    Returns:
        Sorted int64 indices into ``labels``.

    Example:
        >>> labels = np.array([[1, 0]] * 100 + [[0, 1]] * 50 + [[1, 1]] * 50)
        >>> kept = labels[multilabel_subset(labels, 0.1, seed=0)]
        >>> len(kept), kept.sum(0).tolist()
        (20, [15, 10])
    """
    labels = known_labels(labels)
    generator = np.random.default_rng(seed_for(seed, "label subset"))
    rarest_first = np.argsort(np.nansum(labels, axis=0), kind="stable")
    shuffled = generator.permutation(len(labels))
    # lexsort: the last column counts most; the shuffle decides among samples of equal labels.
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


def _binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Of (H, C, b) logits, a mean over each head's known labels (H, b, C), summed over the heads."""
    known = (~labels.isnan()).to(logits.dtype).mT
    losses = functional.binary_cross_entropy_with_logits(logits, labels.nan_to_num(0).mT, known, reduction="none").sum((1, 2))
    return (losses / known.sum((1, 2)).clamp(min=1)).sum()  # a batch without a known label gives no gradient

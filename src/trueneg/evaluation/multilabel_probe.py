"""Linear evaluation with several labels an image: sigmoid classifiers on features computed once, for shares of the labels."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trueneg.evaluation.linear_probe import LinearProbes, train_stacked
from trueneg.evaluation.zero_shot import areas_by_class, known_labels
from trueneg.randomness import seed_for


def train_multilabel_probes(
    features: Tensor | Sequence[Tensor],
    labels: Tensor | Sequence[Tensor],
    *,
    epochs: int = 100,
    batch_size: int = 512,
    learning_rate: float = 1e-2,
    weight_decay: float = 1e-6,
    generator_seeds: Sequence[int],
) -> LinearProbes:
    r"""Train H linear classifiers of C labels each at once, each as if alone.

    Head :math:`h` minimises, by Adam, the binary cross-entropy of :math:`\sigma(W_h^\top f + b_h)` averaged over the
    known labels of a batch: the linear evaluation of ReCo, section 4.3, whose learning rate is the default; the rest
    it does not tell. It augments the images there, which features computed once cannot do. Heads with equally many
    samples are one stacked product; the loss is the SUM over heads, so no head's gradient depends on another.

    All draws of head h come from a CPU generator with ``generator_seeds[h]``: the weights and bias of
    ``nn.Linear(D, C)``, uniform in ±1/√D, then one ``torch.randperm`` an epoch.

    Args:
        features: (H, n, D), or H tensors (n_h, D): float32 or float64, of one device.
        labels: (H, n, C), or H tensors (n_h, C), of the features' type: 1, 0, and NaN for an unknown label
            (:func:`trueneg.evaluation.zero_shot.known_labels` makes them), which trains nothing.
        epochs: passes of each head over its own samples.
        batch_size: samples a step.
        learning_rate: of Adam.
        weight_decay: of Adam, an L2 term of the gradient.
        generator_seeds: one a head, such as ``seed_for(seed, "linear probe")``.

    Returns:
        The trained heads, in the order given, on the features' device; their logits: :func:`probe_logits`.

    Raises:
        ValueError: if the numbers of heads, samples, dimensions or classes do not agree, a label is none of 1, 0
            and NaN, a feature is not finite, or a number that must be positive is not.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> labels = torch.tensor([[1.0, 0.0], [0.0, torch.nan], [1.0, 1.0]])
        >>> heads = train_multilabel_probes([features], [labels], learning_rate=0.1, generator_seeds=[0])
        >>> (probe_logits(heads, [features])[0] > 0).int().tolist()[2]
        [1, 1]
    """
    _refuse_bad_heads(features, labels, generator_seeds)
    for name, value in (("epochs", epochs), ("batch_size", batch_size), ("learning_rate", learning_rate)):
        if not value > 0:
            raise ValueError(f"{name} is {value}, expected a positive number")
    weights = features[0].new_empty(len(features), features[0].shape[1], labels[0].shape[1])
    bias = features[0].new_empty(len(features), labels[0].shape[1])
    heads_by_count: dict[int, list[int]] = {}
    for head, own_labels in enumerate(labels):
        heads_by_count.setdefault(len(own_labels), []).append(head)
    for heads in heads_by_count.values():
        weights[heads], bias[heads] = train_stacked(
            torch.stack([features[head] for head in heads]),
            torch.stack([labels[head] for head in heads]),
            labels[0].shape[1],
            _binary_cross_entropy,
            epochs,
            batch_size,
            {"lr": learning_rate, "weight_decay": weight_decay},
            [torch.Generator().manual_seed(generator_seeds[head]) for head in heads],
        )
    return LinearProbes(weights, bias)


def probe_logits(probes: LinearProbes, features: Tensor | Sequence[Tensor]) -> Tensor:
    """The logits of each head for its own features.

    Args:
        probes: H heads.
        features: (H, m, D), or H tensors (m, D).

    Returns:
        (H, m, C).

    Raises:
        ValueError: if there is not one set of features a head.
    """
    if len(features) != len(probes.weights):
        raise ValueError(f"{len(features)} sets of features for {len(probes.weights)} heads, expected one a head")
    heads = zip(features, probes.weights, probes.bias, strict=True)
    return torch.stack([torch.addmm(bias, own, weights) for own, weights, bias in heads])


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

    Raises:
        ValueError: if the fraction is outside (0, 1], a label is none, or the labels are no matrix.

    Example:
        >>> labels = np.array([[1, 0]] * 100 + [[0, 1]] * 50 + [[1, 1]] * 50)
        >>> kept = labels[multilabel_subset(labels, 0.1, seed=0)]
        >>> len(kept), kept.sum(0).tolist()
        (20, [15, 10])
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction is {fraction}, expected more than 0 and at most 1")
    labels = known_labels(labels)
    if labels.ndim != 2 or not labels.size:
        raise ValueError(f"labels have the shape {labels.shape}, expected (n, classes), at least one of each")
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

    Raises:
        ValueError: as :func:`train_multilabel_probes`, :func:`multilabel_subset` and
            :func:`trueneg.evaluation.zero_shot.areas_by_class`.
    """
    if "mean" in class_names:
        raise ValueError(f"class_names are {list(class_names)}, expected none to be 'mean'")
    targets = torch.from_numpy(known_labels(labels)).to(features)
    subsets = [torch.from_numpy(multilabel_subset(labels, fraction, seed)).to(features.device) for fraction in fractions]
    probes = train_multilabel_probes(
        [features[subset] for subset in subsets],
        [targets[subset] for subset in subsets],
        generator_seeds=[seed_for(seed, "linear probe")] * len(subsets),
        **training,
    )
    results = {}
    for fraction, logits in zip(fractions, probe_logits(probes, [test_features] * len(subsets)), strict=True):
        areas = areas_by_class(logits, test_labels, class_names)
        results[fraction] = {**areas, "mean": float(np.mean(list(areas.values())))}
    return results


def _binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Of (H, C, b) logits, a mean over each head's known labels (H, b, C), summed over the heads."""
    known = (~labels.isnan()).to(logits.dtype).mT
    losses = functional.binary_cross_entropy_with_logits(logits, labels.nan_to_num(0).mT, known, reduction="none").sum((1, 2))
    return (losses / known.sum((1, 2)).clamp(min=1)).sum()  # a batch without a known label gives no gradient


def _refuse_bad_heads(features, labels, generator_seeds) -> None:
    if not len(features) or not len(features) == len(labels) == len(generator_seeds):
        raise ValueError(
            f"{len(features)} sets of features, {len(labels)} of labels and {len(generator_seeds)} generator "
            "seeds, expected one of each a head, and at least one head"
        )
    dimensions, classes = features[0].shape[-1], labels[0].shape[-1]
    for head, (own, own_labels) in enumerate(zip(features, labels, strict=True)):
        if own.dim() != 2 or own.shape[1] != dimensions or own_labels.shape != (len(own), classes) or not len(own):
            raise ValueError(
                f"head {head}: features of shape {tuple(own.shape)} and labels of shape {tuple(own_labels.shape)}, "
                f"expected (n, {dimensions}) and (n, {classes}) with n of at least 1"
            )
        if own.dtype not in (torch.float32, torch.float64) or own.dtype != features[0].dtype or own_labels.dtype != own.dtype:
            raise ValueError(
                f"head {head}: features are {own.dtype} and labels {own_labels.dtype}, "
                "expected float32 or float64, the same for all heads and labels"
            )
        if not own.isfinite().all():
            raise ValueError(f"head {head}: some features are not finite; the encoder's training has diverged")
        if not ((own_labels == 0) | (own_labels == 1) | own_labels.isnan()).all():
            raise ValueError(f"head {head}: some labels are neither 0, 1 nor NaN")

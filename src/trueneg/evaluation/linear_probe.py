"""Linear classifiers on frozen features: many heads, trained as one stacked product."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trueneg.randomness import seed_for


class LinearProbes(NamedTuple):
    """H linear classifiers.

    Attributes:
        weights: shape (H, D, C).
        bias: shape (H, C).
    """

    weights: Tensor
    bias: Tensor

    def predict(self, features: Tensor | Sequence[Tensor]) -> Tensor:
        """The class of highest logit, by each head for its own features.

        Args:
            features: (H, m, D), or H tensors (m, D). Heads that share features may be given one tensor
                several times: nothing is copied.

        Returns:
            int64, shape (H, m).

        Raises:
            ValueError: if there is not one set of features a head.
        """
        if len(features) != len(self.weights):
            raise ValueError(f"{len(features)} sets of features for {len(self.weights)} heads, expected one a head")
        heads = zip(features, self.weights, self.bias, strict=True)
        return torch.stack([torch.addmm(bias, own, weights).argmax(1) for own, weights, bias in heads])


def train_linear_probes(
    features: Tensor | Sequence[Tensor],
    labels: Tensor | Sequence[Tensor],
    classes: int,
    *,
    epochs: int = 100,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-6,
    generator_seeds: Sequence[int],
) -> LinearProbes:
    r"""Train H softmax classifiers at once, each as if alone.

    Head :math:`h` minimises the mean cross-entropy of :math:`W_h^\top f + b_h` by Adam, with weight decay as
    an L2 term of the gradient (``torch.optim.Adam``): the linear evaluation of Sample-Specific Debiasing
    (2023), section 3.1. Each head shuffles its own samples every epoch; the last batch may be smaller. The
    loss is the SUM over heads, so no head's gradient depends on another. Heads with equally many samples are
    one stacked product.

    All draws of head h come from a CPU generator with ``generator_seeds[h]``: first the weights and bias of
    ``nn.Linear(D, C)``, uniform in ±1/√D, then one ``torch.randperm`` an epoch. They do not depend on the
    features, so heads of the same seed on different encoders share them.

    Args:
        features: (H, n, D), or H tensors (n_h, D): float32 or float64, of one device. Heads of a list are
            copied into one tensor for each n_h that occurs.
        labels: (H, n), or H tensors (n_h,): int64 in 0 … classes − 1.
        classes: C.
        epochs: passes of each head over its own samples.
        batch_size: samples a step; the paper does not tell its own.
        learning_rate: of Adam.
        weight_decay: of Adam.
        generator_seeds: one a head, such as ``seed_for(seed, "linear probe")``.

    Returns:
        The trained heads, in the order given, on the features' device.

    Raises:
        ValueError: if the numbers of heads, samples or dimensions do not agree, a label is no class, a
            feature is not finite, or a number that must be positive is not.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> few = torch.tensor([0, 1])
        >>> many = few.repeat(8)
        >>> heads = {"features": [features[few], features[many]], "labels": [few, many], "classes": 2}
        >>> probes = train_linear_probes(**heads, epochs=50, learning_rate=0.1, generator_seeds=[0, 1])
        >>> probes.predict([features, features])
        tensor([[0, 1],
                [0, 1]])
    """
    _refuse_bad_heads(features, labels, classes, generator_seeds)
    for name, value in (("epochs", epochs), ("batch_size", batch_size), ("learning_rate", learning_rate)):
        if not value > 0:
            raise ValueError(f"{name} is {value}, expected a positive number")
    weights = features[0].new_empty(len(features), features[0].shape[1], classes)
    bias = features[0].new_empty(len(features), classes)
    heads_by_count: dict[int, list[int]] = {}
    for head, own_labels in enumerate(labels):
        heads_by_count.setdefault(len(own_labels), []).append(head)
    for heads in heads_by_count.values():
        weights[heads], bias[heads] = train_stacked(
            features if isinstance(features, Tensor) else torch.stack([features[head] for head in heads]),
            labels if isinstance(labels, Tensor) else torch.stack([labels[head] for head in heads]),
            classes,
            _cross_entropy,
            epochs,
            batch_size,
            {"lr": learning_rate, "weight_decay": weight_decay},
            [torch.Generator().manual_seed(generator_seeds[head]) for head in heads],
        )
    return LinearProbes(weights, bias)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Of (H, C, b) logits, a mean over each head's samples, summed over the heads."""
    return functional.cross_entropy(logits, labels, reduction="sum") / labels.shape[1]


def train_stacked(
    features: Tensor,
    labels: Tensor,
    classes: int,
    loss: Callable[[Tensor, Tensor], Tensor],
    epochs: int,
    batch_size: int,
    adam: Mapping[str, float],
    generators: Sequence[torch.Generator],
) -> tuple[Tensor, Tensor]:
    """Train linear heads with equally many samples, as one product a step.

    Args:
        features: (H, n, D).
        labels: (H, n, …).
        classes: C.
        loss: from logits (H, C, b) and labels (H, b, …) to a scalar in which no head has part in another's.
        epochs: passes over the samples.
        batch_size: samples of each head a step.
        adam: Adam's arguments.
        generators: one a head, for its first weights and the order of its samples.

    Returns:
        Weights (H, D, C) and bias (H, C).
    """
    heads, count, dimensions = features.shape
    bound = dimensions**-0.5
    weights = torch.empty(heads, classes, dimensions, dtype=features.dtype)
    bias = torch.empty(heads, classes, dtype=features.dtype)
    for head, generator in enumerate(generators):
        weights[head].uniform_(-bound, bound, generator=generator)
        bias[head].uniform_(-bound, bound, generator=generator)
    weights = weights.to(features.device).requires_grad_()
    bias = bias.to(features.device).requires_grad_()
    optimizer = torch.optim.Adam([weights, bias], **adam)
    # Rows of all heads in one matrix: a batch of every head is then a single gather.
    all_features, all_labels = features.flatten(0, 1), labels.flatten(0, 1)
    first_row = torch.arange(heads).unsqueeze(1) * count
    for _ in range(epochs):
        order = torch.stack([torch.randperm(count, generator=generator) for generator in generators]) + first_row
        for rows in order.to(features.device).split(batch_size, dim=1):
            batch = all_features.index_select(0, rows.flatten()).unflatten(0, rows.shape)
            # Logits as (H, C, b), so that samples and dimensions, not the few classes, are innermost in both
            # passes: on a CPU about five times as fast as (H, b, C).
            logits = torch.baddbmm(bias.unsqueeze(2), weights, batch.mT)
            optimizer.zero_grad()
            loss(logits, all_labels[rows]).backward()
            optimizer.step()
    return weights.detach().mT, bias.detach()


def _refuse_bad_heads(features, labels, classes, generator_seeds) -> None:
    if not len(features) or not len(features) == len(labels) == len(generator_seeds):
        raise ValueError(
            f"{len(features)} sets of features, {len(labels)} of labels and {len(generator_seeds)} generator "
            "seeds, expected one of each a head, and at least one head"
        )
    dimensions = features[0].shape[-1]
    for head, (own, own_labels) in enumerate(zip(features, labels, strict=True)):
        if own.dim() != 2 or own.shape[1] != dimensions or own_labels.shape != own.shape[:1] or not len(own):
            raise ValueError(
                f"head {head}: features of shape {tuple(own.shape)} and labels of shape "
                f"{tuple(own_labels.shape)}, expected (n, {dimensions}) and (n,) with n of at least 1"
            )
        if own.dtype not in (torch.float32, torch.float64) or own.dtype != features[0].dtype:
            raise ValueError(f"head {head}: features are {own.dtype}, expected float32 or float64, alike for all heads")
        if not all(extreme.isfinite() for extreme in own.aminmax()):  # one pass, and NaN is both extremes
            raise ValueError(f"head {head}: some features are not finite; the encoder's training has diverged")
        if own_labels.min() < 0 or own_labels.max() >= classes:
            raise ValueError(f"head {head}: labels go from {own_labels.min()} to {own_labels.max()}, expected 0 to {classes - 1}")


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

    Raises:
        ValueError: if the fraction is outside (0, 1], or the labels are not a vector.

    Example:
        >>> labels = np.array([0] * 10 + [1] * 2)
        >>> np.bincount(labels[label_subset(labels, 0.2, seed=0)]).tolist()
        [2, 1]
    """
    labels = np.asarray(labels)
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction is {fraction}, expected more than 0 and at most 1")
    if labels.ndim != 1:
        raise ValueError(f"labels have shape {labels.shape}, expected (n,)")
    order = np.random.default_rng(seed_for(seed, "label subset")).permutation(len(labels))
    members_by_class = [order[labels[order] == label] for label in np.unique(labels)]
    kept = [members[: max(1, round(fraction * len(members)))] for members in members_by_class]
    return np.sort(np.concatenate([np.empty(0, np.int64), *kept]))

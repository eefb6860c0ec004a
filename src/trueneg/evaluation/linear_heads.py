"""Linear classifiers on frozen features: many heads, trained as one stacked product."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class LinearHeads(NamedTuple):
    """H linear classifiers: weights (H, D, C) and bias (H, C)."""

    weights: Tensor
    bias: Tensor

    def logits(self, features: Sequence[Tensor]) -> Tensor:
        """(H, m, C) logits of each head for its own (m, D) features."""
        heads = zip(features, self.weights, self.bias, strict=True)
        return torch.stack([torch.addmm(bias, own, weights) for own, weights, bias in heads])


def train_linear_heads(
    features: Sequence[Tensor],
    labels: Sequence[Tensor],
    classes: int,
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    generator_seeds: Sequence[int],
) -> LinearHeads:
    """Train H linear classifiers by Adam, each as if alone; heads with equally many samples are one stacked product.

    All draws of head h come from a CPU generator with ``generator_seeds[h]``: first the weights and bias of
    ``nn.Linear(D, C)``, uniform in ±1/√D, then one ``torch.randperm`` per epoch; the last batch may be smaller. The draws do not
    depend on the features, so heads of the same seed on different encoders share them.

    Args:
        features: H tensors (n_h, D), of one device.
        labels: H tensors (n_h, …).
        classes: C.
        loss: from logits (H, C, b) and labels (H, b, …) to a scalar: a sum over heads, so that no gradient depends on another.
        epochs: passes of each head over its own samples.
        batch_size: samples per step.
        learning_rate: of Adam.
        weight_decay: of Adam, an L2 term of the gradient.
        generator_seeds: one per head.

    Raises:
        ValueError: if a feature is not finite.
    """
    if not all(own.isfinite().all() for own in features):
        raise ValueError("some features are not finite; the encoder's training has diverged")
    weights = features[0].new_empty(len(features), features[0].shape[1], classes)
    bias = features[0].new_empty(len(features), classes)
    heads_by_count: dict[int, list[int]] = {}
    for head, own_labels in enumerate(labels):
        heads_by_count.setdefault(len(own_labels), []).append(head)
    for heads in heads_by_count.values():
        weights[heads], bias[heads] = _train_stacked(
            torch.stack([features[head] for head in heads]),
            torch.stack([labels[head] for head in heads]),
            classes,
            loss,
            epochs,
            batch_size,
            {"lr": learning_rate, "weight_decay": weight_decay},
            [torch.Generator().manual_seed(generator_seeds[head]) for head in heads],
        )
    return LinearHeads(weights, bias)


def _train_stacked(
    features: Tensor,
    labels: Tensor,
    classes: int,
    loss: Callable[[Tensor, Tensor], Tensor],
    epochs: int,
    batch_size: int,
    adam: dict[str, float],
    generators: Sequence[torch.Generator],
) -> tuple[Tensor, Tensor]:
    """Weights (H, D, C) and bias (H, C) of heads with equally many samples: features (H, n, D)."""
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

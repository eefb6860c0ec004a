"""Linear classifiers on frozen features; heads with the same number of samples are trained
together.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.randomness import generator_of

Loss = Callable[[Tensor, Tensor], Tensor]


class LinearHeads(NamedTuple):
    """H linear classifiers: weights (H, D, C) and bias (H, C)."""

    weights: Tensor
    bias: Tensor

    def logits(self, features: Sequence[Tensor]) -> Tensor:
        """Return the logits (H, m, C) of each head for its own features (m, D)."""
        heads = zip(self.bias, features, self.weights, strict=True)
        return torch.stack([torch.addmm(*head) for head in heads])


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of logits (H, C, b) and classes (H, b): mean over each head's samples, summed
    over heads.
    """
    return functional.cross_entropy(logits, labels, reduction="sum") / labels.shape[1]


def known_binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy of logits (…, C, b): mean over each head's known labels (…, b, C),
    summed over heads.

    Args:
        logits: logits of a batch of b samples and C classes, optionally with several heads.
        labels: 1, 0, or NaN for unknown labels, which are ignored; a batch without known labels
            gives 0.

    Example:
        >>> known_binary_cross_entropy(
        ...     torch.tensor([[0.0], [9.0]]), torch.tensor([[1.0, torch.nan]])
        ... )  # −log ½
        tensor(0.6931)
    """
    is_known = (~labels.isnan()).to(logits.dtype).mT
    losses = functional.binary_cross_entropy_with_logits(
        logits, labels.nan_to_num(0).mT, is_known, reduction="none"
    )
    return (losses.sum((-2, -1)) / is_known.sum((-2, -1)).clamp(min=1)).sum()


def train_linear_heads(
    features: Sequence[Tensor],
    labels: Sequence[Tensor],
    classes: int,
    loss: Loss,
    *,
    seeds: Sequence[int],
    **training: Any,
) -> LinearHeads:
    r"""Train H linear classifiers independently with Adam; all heads share one batched matrix
    product.

    Head :math:`h` minimises the loss of :math:`W_h^\top f + b_h`, averaged over a batch. All its
    draws come from a CPU generator with ``seeds[h]``: first the weights and bias of ``nn.Linear(D,
    C)``, uniform in ±1/√D, then one ``torch.randperm`` per epoch; the last batch may be smaller.
    The draws do not depend on the features, so heads with the same seed on different encoders share
    them.

    Args:
        features: H tensors (n, D) of the same size, all on the same device.
        labels: H tensors (n, …).
        classes: C, number of classes.
        loss: maps logits (H, C, b) and labels (H, b, …) to a sum over heads, so that no head's
            gradient depends on another head.
        seeds: one seed per head, for its generator.
        training: ``epochs`` of each head over its own samples, ``batch_size``, and Adam's
            ``learning_rate`` and ``weight_decay`` (an L2 term in the gradient).

    Raises:
        RuntimeError: if the heads differ in their number of samples.

    Example:
        >>> features, labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
        >>> training = {"epochs": 50, "batch_size": 2, "learning_rate": 0.1, "weight_decay": 0.0}
        >>> heads = train_linear_heads(
        ...     [features], [labels], 2, cross_entropy, seeds=[0], **training
        ... )
        >>> heads.logits([features]).argmax(2)
        tensor([[0, 1]])
    """
    # The samples of all heads are in one matrix, so that one gather fetches a batch for every head.
    all_features, all_labels = (
        torch.stack(tuple(values)).flatten(0, 1) for values in (features, labels)
    )
    generators = [generator_of(seed) for seed in seeds]
    count, dimensions = features[0].shape
    bound = dimensions**-0.5
    weights = torch.empty(len(features), classes, dimensions, dtype=all_features.dtype)
    bias = torch.empty(len(features), classes, dtype=all_features.dtype)
    for head_weights, head_bias, generator in zip(weights, bias, generators, strict=True):
        head_weights.uniform_(-bound, bound, generator=generator)
        head_bias.uniform_(-bound, bound, generator=generator)
    learned = [start.to(all_features.device).requires_grad_() for start in (weights, bias)]
    optimizer = torch.optim.Adam(
        learned, lr=training["learning_rate"], weight_decay=training["weight_decay"]
    )
    first_row = torch.arange(len(features)).unsqueeze(1) * count
    for _ in range(training["epochs"]):
        order = (
            torch.stack([torch.randperm(count, generator=generator) for generator in generators])
            + first_row
        )
        for rows in order.to(all_features.device).split(training["batch_size"], dim=1):
            batch = all_features.index_select(0, rows.flatten()).unflatten(0, rows.shape)
            # Logits are (H, C, b) so that samples and dimensions, not the few classes, are
            # innermost in both passes: about five times as fast on a CPU as (H, b, C).
            logits = torch.baddbmm(learned[1].unsqueeze(2), learned[0], batch.mT)
            optimizer.zero_grad()
            loss(logits, all_labels[rows]).backward()
            optimizer.step()
    return LinearHeads(learned[0].detach().mT.contiguous(), learned[1].detach())

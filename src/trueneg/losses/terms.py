"""From logits to a contrastive loss: what the two-view and the cross-modal loss have in common."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trueneg.losses.estimators import Estimator, NegativeMass
from trueneg.losses.gathering import gathered
from trueneg.losses.pairs import without_own


class ContrastiveTerms(NamedTuple):
    """A contrastive loss with what it was computed from; A anchors, N negatives, M positives.

    Attributes:
        loss: scalar, the mean over the anchors.
        positive: (A, M) logits; the first column is the anchor's own positive.
        negatives: (A, N) logits; None where the loss is computed by blocks, which keeps none of them.
        log_negative_mass: (A,) the estimator's log(N·g).
        at_bound: (A,) bool: log(N·g) is its lower bound, so the anchor's negatives get no gradient.
    """

    loss: Tensor
    positive: Tensor
    negatives: Tensor | None
    log_negative_mass: Tensor
    at_bound: Tensor


class Batch(NamedTuple):
    """What is known about the B samples of a batch beside their embeddings; G samples on all processes.

    Attributes:
        class_probability: η, a number or (B,); None: the estimator's own.
        labels: (B,) class of each sample, or None.
        negative_similarity: (B, G) known similarity of samples, or None.
        gather_distributed: whether other processes' samples are negatives too.
    """

    class_probability: float | Tensor | None = None
    labels: Tensor | None = None
    negative_similarity: Tensor | None = None
    gather_distributed: bool = False


def contrastive_terms(
    estimator: Estimator,
    positive: Tensor,
    logits: Callable[[int, int], Tensor],
    floor: float | Tensor,
    batch: Batch,
    first: int = 0,
    chunk_size: int | None = None,
) -> ContrastiveTerms:
    """The loss of S·B anchors: S kinds (views, or modalities) of B samples each.

    Args:
        estimator: of the true-negative mass.
        positive: (S, B, M) logits.
        logits: for samples start … stop − 1, the (S, K, stop − start, G) logits of their anchors with K kinds of
            all G samples.
        floor: log of the lower bound of g.
        batch: what else is known.
        first: the place of our first sample among the G.
        chunk_size: how many anchors are computed at a time; None: all. A block's logits are computed again in
            the backward pass, so that no more than one block is held.

    Raises:
        ValueError: if shapes do not fit, or something is missing that the estimator needs.
    """
    kinds, count = positive.shape[:2]
    everyone = _checked(estimator, batch, count)

    def mass(start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
        block = logits(start, stop)
        if block.shape[-1] < 2:
            raise ValueError("There is one sample in the batch, expected at least 2: it has no negatives.")
        block = without_own(block, first + start)
        negatives = block.transpose(1, 2).reshape(kinds * (stop - start), -1)
        eta = batch.class_probability
        if isinstance(eta, Tensor) and eta.dim() > 0:
            eta = eta[start:stop].repeat(kinds)
        known = {}
        if estimator.needs_labels:
            same = batch.labels[start:stop, None] == everyone[None]
            known["same_class"] = without_own(same, first + start).repeat(kinds, block.shape[1])
        if estimator.needs_similarity:
            similarity = without_own(batch.negative_similarity[start:stop], first + start)
            known["similarity"] = similarity.repeat(kinds, block.shape[1])
        own = positive[:, start:stop].flatten(0, 1)
        return *estimator.mass(own, negatives, eta, floor, **known), negatives

    if chunk_size is None or chunk_size >= kinds * count:
        log_mass, at_bound, negatives = mass(0, count)
    else:
        (log_mass, at_bound), negatives = _by_blocks(mass, kinds, count, max(1, chunk_size // kinds)), None
    loss = functional.softplus(log_mass - positive[..., 0].flatten()).mean()
    return ContrastiveTerms(loss, positive.flatten(0, 1), negatives, log_mass, at_bound)


def single_precision(*tensors: Tensor) -> list[Tensor]:
    """The tensors in one floating type: float32, or float64 where one is; autocast's halves lose too much."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]


def _by_blocks(mass, kinds: int, count: int, size: int) -> NegativeMass:
    def block(start: int, stop: int) -> list[Tensor]:
        return [values.unflatten(0, (kinds, stop - start)) for values in mass(start, stop)[:2]]

    blocks = [checkpoint(block, start, min(start + size, count), use_reentrant=False) for start in range(0, count, size)]
    return NegativeMass(*(torch.cat(values, dim=1).flatten() for values in zip(*blocks, strict=True)))


def _checked(estimator: Estimator, batch: Batch, count: int) -> Tensor | None:
    """The labels of the samples of all processes, if the estimator needs labels; the shapes of all that is given."""
    name, eta = type(estimator).__name__, batch.class_probability
    if isinstance(eta, Tensor) and eta.dim() > 0 and eta.shape != (count,):
        raise ValueError(f"class_probability has the shape {tuple(eta.shape)}, expected one value per sample: ({count},).")
    if estimator.needs_similarity and (batch.negative_similarity is None or len(batch.negative_similarity) != count):
        raise ValueError(f"{name} needs negative_similarity: a tensor with one row for each of {count} samples.")
    if not estimator.needs_labels:
        return None
    if batch.labels is None or batch.labels.shape != (count,):
        raise ValueError(f"{name} needs labels, one per sample: a tensor of shape ({count},).")
    return gathered(batch.labels)[0].flatten() if batch.gather_distributed else batch.labels

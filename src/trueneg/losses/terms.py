"""From logits to a contrastive loss: what the two-view and the cross-modal loss have in common."""

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.losses.base import Estimator, NegativeMass
from trueneg.losses.blocks import by_blocks, product
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
        same_class: (S, B, G) bool, of each kind of anchors, in place of the labels; or None.
    """

    class_probability: float | Tensor | None = None
    labels: Tensor | None = None
    negative_similarity: Tensor | None = None
    gather_distributed: bool = False
    same_class: Tensor | None = None


class Logits(NamedTuple):
    """The logits of S·B anchors with K kinds of all G samples, as factors or multiplied out.

    Attributes:
        anchors: (S, B, D); or the logits themselves, (S, B, K·G), where there are no keys.
        keys: (S, K·G, D) that the anchors' inner products are with, or None.
        kinds: K.
        first: the place of our first sample among the G.
    """

    anchors: Tensor
    keys: Tensor | None = None
    kinds: int = 1
    first: int = 0


def contrastive_terms(
    estimator: Estimator,
    positive: Tensor,
    logits: Logits,
    floor: float | Tensor,
    batch: Batch,
    chunk_size: int | None = None,
) -> ContrastiveTerms:
    """The loss of S·B anchors: S kinds (views, or modalities) of B samples each.

    Args:
        estimator: of the true-negative mass.
        positive: (S, B, M) logits.
        logits: of the anchors with all samples, their own among them.
        floor: log of the lower bound of g.
        batch: what else is known.
        chunk_size: how many anchors are computed at a time; None: all. A block's logits are computed again in
            the backward pass, so that no more than one block is held.

    Raises:
        ValueError: if shapes do not fit, or something is missing that the estimator needs.
    """
    sides, count = positive.shape[:2]
    anchors, keys, kinds, first = logits
    if chunk_size is None or chunk_size >= sides * count:
        negatives = without_own(product(anchors, keys), first, kinds).flatten(0, 1)
        return terms_of_negatives(estimator, positive.flatten(0, 1), negatives, floor, batch, sides, kinds, first)
    everyone = _checked(estimator, batch, count, (anchors if keys is None else keys).shape[-2] // kinds)
    # What is a tensor goes with its anchor into a block; a number holds for all.
    given = {"class_probability": batch.class_probability, "floor": floor}
    tensors = {name: value.expand(sides, count) for name, value in given.items() if isinstance(value, Tensor)}

    def mass(start: int, block: Tensor, positive: Tensor, *values: Tensor) -> NegativeMass:
        negatives = without_own(block, first + start, kinds).flatten(0, 1)
        known = given | {name: value.flatten() for name, value in zip(tensors, values, strict=True)}
        known |= _known(estimator, batch, everyone, slice(start, start + block.shape[1]), sides, kinds, first + start)
        return estimator.mass(positive.flatten(0, 1), negatives, **known)

    size = max(1, chunk_size // sides)
    blocks = NegativeMass(*by_blocks(mass, size, anchors, keys, positive, *tensors.values()))
    return _terms(positive.flatten(0, 1), None, blocks)


def terms_of_negatives(
    estimator: Estimator,
    positive: Tensor,
    negatives: Tensor,
    floor: float | Tensor,
    batch: Batch,
    sides: int,
    kinds: int = 1,
    first: int = 0,
) -> ContrastiveTerms:
    """The loss of S·B anchors that are all there.

    Args:
        estimator: as for :func:`contrastive_terms`.
        positive: (S·B, M) logits, or (S·B,).
        negatives: (S·B, N) logits.
        floor: as for :func:`contrastive_terms`.
        batch: as for :func:`contrastive_terms`.
        sides: S.
        kinds: K, of which the N negatives are.
        first: the place of our first sample among those of all processes.
    """
    count = positive.shape[0] // sides
    eta, everyone = batch.class_probability, _checked(estimator, batch, count, negatives.shape[-1] // kinds + 1)
    if isinstance(eta, Tensor) and eta.dim() > 0:
        eta = eta.repeat(sides)
    known = _known(estimator, batch, everyone, slice(count), sides, kinds, first)
    return _terms(positive, negatives, estimator.mass(positive, negatives, eta, floor, **known))


def _terms(positive: Tensor, negatives: Tensor | None, mass: NegativeMass) -> ContrastiveTerms:
    if positive.dim() == 1:
        own, positive = positive, positive[:, None]
    else:
        own = positive[:, 0]
    loss = functional.softplus(mass.log - own).mean()
    return ContrastiveTerms(loss, positive, negatives, mass.log, mass.at_bound)


def _known(
    estimator: Estimator, batch: Batch, everyone: Tensor | None, rows: slice, sides: int, kinds: int, first: int
) -> dict[str, Tensor]:
    """What the estimator needs to know of the negatives of some samples, the first of which is ``first`` of all."""
    known = {}
    if estimator.needs_labels:
        by_labels = batch.same_class is None
        known["same_class"] = (batch.labels[rows, None] == everyone)[None] if by_labels else batch.same_class[:, rows]
    if estimator.needs_similarity:
        known["similarity"] = batch.negative_similarity[None, rows]
    return {name: without_own(value, first).expand(sides, -1, -1).flatten(0, 1).repeat(1, kinds) for name, value in known.items()}


def outside_autocast(device: torch.device) -> AbstractContextManager:
    """Where nothing is computed in half precision; entering torch's own region costs as much as several operations."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def single_precision(*tensors: Tensor) -> list[Tensor]:
    """The tensors in one floating type: float32, or float64 where one is; autocast's halves lose too much."""
    dtype = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    return [tensor.to(dtype) for tensor in tensors]


def _checked(estimator: Estimator, batch: Batch, count: int, samples: int) -> Tensor | None:
    """The labels of the samples of all processes, if the estimator needs labels; the shapes of all that is given."""
    if samples < 2:
        raise ValueError("There is one sample in the batch, expected at least 2: it has no negatives.")
    name, eta = type(estimator).__name__, batch.class_probability
    if isinstance(eta, Tensor) and eta.dim() > 0 and eta.shape != (count,):
        raise ValueError(f"class_probability has the shape {tuple(eta.shape)}, expected one value per sample: ({count},).")
    if estimator.needs_similarity and (batch.negative_similarity is None or batch.negative_similarity.shape != (count, samples)):
        raise ValueError(f"{name} needs negative_similarity of our samples with all: a tensor of shape ({count}, {samples}).")
    if not estimator.needs_labels:
        return None
    if batch.same_class is not None:
        if batch.same_class.shape[1:] != (count, samples):
            raise ValueError(f"same_class has the shape {tuple(batch.same_class.shape[1:])}, expected ({count}, {samples}).")
        return None
    if batch.labels is None or batch.labels.shape != (count,):
        raise ValueError(f"{name} needs labels, one per sample: a tensor of shape ({count},).")
    return gathered(batch.labels)[0].flatten() if batch.gather_distributed else batch.labels

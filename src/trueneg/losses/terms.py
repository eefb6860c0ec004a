"""Computation of a contrastive loss from logits, shared by the two-view and the cross-modal loss."""

import itertools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.losses.base import checked_shape
from trueneg.losses.execution import by_chunks, gathered


class ContrastiveTerms(NamedTuple):
    """A contrastive loss and the terms it is computed from, for A anchors, K columns and M positives.

    Attributes:
        loss: scalar, the mean over the anchors.
        positive: (A, M) logits; the first column is the anchor's own positive.
        logits: one tensor per direction, with K columns for all samples and −∞ in the columns of the anchor's own sample. Empty
            if the loss is computed in chunks.
        log_negative_mass: (A,) the estimator's log(N·g).
        at_bound: (A,) bool, True where log(N·g) is at its lower bound, so the anchor's negatives get no gradient.
    """

    loss: Tensor
    positive: Tensor
    logits: tuple[Tensor, ...]
    log_negative_mass: Tensor
    at_bound: Tensor

    @property
    def negatives(self) -> Tensor | None:
        """(A, N) logits of the negatives only, in column order; None if ``logits`` is empty."""
        parts = [part[part > -math.inf].view(len(part), -1) for part in self.logits]
        return torch.cat(parts) if parts else None


def contrastive_terms(
    loss: Any,
    positive: Tensor,
    anchors: Tensor,
    keys: Tensor | None,
    floor: float | Tensor,
    *,
    views: int,
    rank: int = 0,
    class_probability: float | Tensor | None = None,
    labels: Tensor | None = None,
    same_class: Tensor | None = None,
    negative_similarity: Tensor | None = None,
) -> ContrastiveTerms:
    """Compute the loss for A = V·B anchors: each of the B samples is an anchor once per view.

    Args:
        loss: the loss module; its ``estimator``, ``chunk_size`` and ``gather_distributed`` are used.
        positive: (A,) or (A, M) logits.
        anchors: (A, D) embeddings; their inner products with the keys are the logits. If ``keys`` is None, the logits
            themselves, (A, V·G), with −∞ in the columns of the anchor's own sample.
        keys: (V·G, D) embeddings of the G samples of all processes, once per view; or None.
        floor: log of the lower bound of g.
        views: number of views V.
        rank: rank of this process among those that share the G samples.
        class_probability: η, a single number or a tensor of shape (B,); None: the estimator's own.
        labels: (B,) class of each sample, or None.
        same_class: (B, G) bool, whether sample j has the class of anchor i, used instead of ``labels``; or None.
        negative_similarity: (B, G) known similarity between samples, or None.

    Raises:
        ValueError: if shapes do not match, or an input required by the estimator is missing.
    """
    size = anchors.shape[0]
    count, samples = size // views, (anchors.shape[1] if keys is None else keys.shape[0]) // views
    if samples < 2:
        raise ValueError(f"The number of samples is {samples}; expected at least 2; a single sample has no negatives.")
    estimator, chunk_size, etas = loss.estimator, loss.chunk_size, None
    if isinstance(class_probability, Tensor) and class_probability.dim() > 0:
        etas = checked_shape("class_probability", class_probability, (count,)).to(anchors.device)
    if estimator.needs_similarity:
        similarity = checked_shape("negative_similarity", negative_similarity, (count, samples))
    if estimator.needs_labels and same_class is None:
        local = checked_shape("labels", labels, (count,))
        everyones = gathered(local, loss.gather_distributed)[0].flatten()
    elif estimator.needs_labels:
        checked_shape("same_class", same_class, (count, samples))
    whole = chunk_size is None or chunk_size >= size

    def of_rows(positive: Tensor, anchors: Tensor, sample: Tensor, own: Tensor) -> tuple[Tensor, ...]:
        logits = anchors if keys is None else (anchors @ keys.mT).scatter_(1, own, -math.inf)
        known: dict[str, Any] = {"count": views * (samples - 1)}
        if estimator.needs_labels:
            same = local[sample, None] == everyones if same_class is None else same_class[sample]
            known["same_class"] = same.repeat(1, views)
        if estimator.needs_similarity:
            known["similarity"] = similarity[sample].repeat(1, views)
        eta = class_probability if etas is None else etas[sample]
        mass = estimator.mass(positive, logits, eta, floor, **known)
        return (*mass, logits) if whole else mass

    sample = torch.arange(size, device=anchors.device).remainder_(count)
    own = sample[:, None] + torch.arange(rank * count, views * samples, samples, device=anchors.device)
    log_mass, at_bound, *logits = by_chunks(of_rows, chunk_size, positive, anchors, sample, own)
    mean = functional.softplus(log_mass - (positive if positive.dim() == 1 else positive[:, 0])).mean()
    return ContrastiveTerms(mean, positive.view(size, -1), tuple(logits), log_mass, at_bound)


def joined(parts: list[ContrastiveTerms]) -> ContrastiveTerms:
    """Combine the terms of several equally large groups of anchors."""
    if len(parts) == 1:
        return parts[0]
    losses, positives, logits, masses, at_bounds = zip(*parts, strict=True)
    together = torch.cat(positives), tuple(itertools.chain(*logits)), torch.cat(masses), torch.cat(at_bounds)
    return ContrastiveTerms(torch.stack(losses).mean(), *together)

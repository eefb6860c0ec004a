"""From logits to a contrastive loss: what the two-view and the cross-modal loss have in common."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.losses.base import Estimator
from trueneg.losses.execution import by_chunks, gathered


class ContrastiveTerms(NamedTuple):
    """A contrastive loss with what it was computed from; A anchors, N negatives, M positives.

    Attributes:
        loss: scalar, the mean over the anchors.
        positive: (A, M) logits; the first column is the anchor's own positive.
        negatives: (A, N) logits; None where they are not kept: in chunks, or if the call says so.
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
        count: B.
        class_probability: η, a number or (B,); None: the estimator's own.
        labels: (B,) class of each sample, or None.
        negative_similarity: (B, G) known similarity of samples, or None.
        gather_distributed: whether other processes' samples are negatives too.
        processes: how many share the G samples.
        first: the place of this process's first sample among them.
        same_class: (B, G) bool, whether sample j is of the class of anchor i, in place of the labels; or None.
    """

    count: int
    class_probability: float | Tensor | None = None
    labels: Tensor | None = None
    negative_similarity: Tensor | None = None
    gather_distributed: bool = False
    same_class: Tensor | None = None
    processes: int = 1
    first: int = 0


def contrastive_terms(
    estimator: Estimator,
    positive: Tensor,
    anchors: Tensor,
    keys: Tensor | None,
    floor: float | Tensor,
    batch: Batch,
    chunk_size: int | None = None,
    keep_negatives: bool = True,
) -> ContrastiveTerms:
    """The loss of A anchors, which are all B samples, once or once per view.

    Args:
        estimator: of the true-negative mass.
        positive: (A,) or (A, M) logits.
        anchors: (A, D), whose inner products with the keys are the logits; without keys the logits themselves, (A, K).
        keys: (K, D) of all G samples, once or once per view; or None.
        floor: log of the lower bound of g.
        batch: what else is known.
        chunk_size: how many anchors are computed at a time; None: all.
        keep_negatives: whether the (A, N) logits of the negatives are wanted, which costs a copy; never in chunks.

    Raises:
        ValueError: if shapes do not fit, or something is missing that the estimator needs.
    """
    samples, columns = batch.processes * batch.count, anchors.shape[1] if keys is None else len(keys)
    labels, eta, views = _checked(estimator, batch, samples), batch.class_probability, columns // samples
    per_anchor = isinstance(eta, Tensor) and eta.dim() > 0
    keep_negatives &= chunk_size is None or chunk_size >= len(anchors)
    # (A, V): the columns of each anchor's own sample; the first is the sample's place among all.
    own = torch.arange(columns, device=anchors.device).view(views, samples)[:, batch.first : batch.first + batch.count]
    own = torch.cat([own.mT] * (len(anchors) // batch.count))
    kept = None

    def mass(positive, anchors, own, class_probability, floor, keys) -> tuple[Tensor, Tensor]:
        nonlocal kept
        logits = anchors if keys is None else anchors @ keys.mT
        known = {}
        if estimator.needs_labels:
            by_labels = batch.same_class is None
            same = labels[own[:, :1]] == labels if by_labels else batch.same_class[own[:, 0] - batch.first]
            known["same_class"] = same.repeat(1, views)
        if estimator.needs_similarity:
            known["similarity"] = batch.negative_similarity[own[:, 0] - batch.first].repeat(1, views)
        if keep_negatives:
            kept = negatives = _without_own(logits, own, samples)
            known = {name: _without_own(value, own, samples) for name, value in known.items()}
        else:
            if estimator.needs_valid:
                known["valid"] = torch.ones_like(logits, dtype=torch.bool).scatter_(1, own, False)
            fill = logits.scatter if keys is None else logits.scatter_  # in place where the logits are not the caller's
            negatives = fill(1, own, -math.inf)
        return estimator.mass(positive, negatives, class_probability, floor, **known)

    rows, shared = {"positive": positive, "anchors": anchors, "own": own}, {"floor": floor, "keys": keys}
    (rows if per_anchor else shared)["class_probability"] = eta.repeat(len(anchors) // batch.count) if per_anchor else eta
    log_mass, at_bound = by_chunks(mass, chunk_size, rows, shared)
    loss = functional.softplus(log_mass - (positive if positive.dim() == 1 else positive[:, 0])).mean()
    return ContrastiveTerms(loss, positive.view(len(anchors), -1), kept, log_mass, at_bound)


def _without_own(rows: Tensor, own: Tensor, samples: int) -> Tensor:
    """Drop each row's ``own`` columns, one per view: (A, V·G) -> (A, V·(G − 1)), the others in their order."""
    views = rows.view(len(rows), -1, samples)
    before = torch.arange(samples - 1, device=rows.device) < own[:, :1, None]
    return torch.where(before, views[..., :-1], views[..., 1:]).flatten(1)


def joined(parts: list[ContrastiveTerms]) -> ContrastiveTerms:
    """The terms of several equally large groups of anchors as those of all."""
    if len(parts) == 1:
        return parts[0]
    losses, *others = zip(*parts, strict=True)
    return ContrastiveTerms(torch.stack(losses).mean(), *(None if each[0] is None else torch.cat(each) for each in others))


def _checked(estimator: Estimator, batch: Batch, samples: int) -> Tensor | None:
    """The labels of all samples, if the estimator needs labels; checks the shapes of everything that is given."""
    if samples < 2:
        raise ValueError("There is one sample in the batch, expected at least 2: it has no negatives.")
    name, eta, count = type(estimator).__name__, batch.class_probability, batch.count
    if isinstance(eta, Tensor) and eta.dim() > 0 and eta.shape != (count,):
        raise ValueError(f"class_probability has the shape {tuple(eta.shape)}, expected one value per sample: ({count},).")
    if estimator.needs_similarity and (batch.negative_similarity is None or batch.negative_similarity.shape != (count, samples)):
        raise ValueError(f"{name} needs negative_similarity of our samples with all: a tensor of shape ({count}, {samples}).")
    if not estimator.needs_labels:
        return None
    if batch.same_class is not None:
        if batch.same_class.shape != (count, samples):
            raise ValueError(f"same_class has the shape {tuple(batch.same_class.shape)}, expected ({count}, {samples}).")
        return None
    if batch.labels is None or batch.labels.shape != (count,):
        raise ValueError(f"{name} needs labels, one per sample: a tensor of shape ({count},).")
    return gathered(batch.labels)[0].flatten() if batch.gather_distributed else batch.labels

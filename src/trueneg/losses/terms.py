"""Computation of a contrastive loss from logits, shared by the two-view and the cross-modal loss."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.losses.base import checked_shape
from trueneg.losses.execution import by_chunks, gathered_rows

TOLERANCE = 1e-4  # for the sum of a row of targets


class ContrastiveTerms(NamedTuple):
    """A contrastive loss and the terms it is computed from, for A anchors, K columns and M positives.

    Attributes:
        loss: scalar, the mean over the anchors.
        positive: (A, M) logits; the first column is the anchor's own positive.
        logits: one tensor per direction, with K columns for all samples and −∞ in the columns of the anchor's own sample. Empty
            if the loss is computed in chunks.
        log_negative_mass: (A,) the estimator's log(N·g).
        at_bound: (A,) bool, True where log(N·g) is at its lower bound, so the anchor's negatives get no gradient.
        removed: (A, K) share of each negative that the estimator leaves out, one tensor per direction; columns where the logits
            are −∞ hold arbitrary values. Empty if the loss is computed in chunks, or the estimator leaves nothing out.
        similarity: (A, K) known similarity used by the estimator or the targets, one tensor per direction; empty if there is
            none, or the loss is computed in chunks.
        targets: (B, G + H) or (A, G + H) soft targets, one tensor per direction; empty if there are none.
    """

    loss: Tensor
    positive: Tensor
    logits: tuple[Tensor, ...]
    log_negative_mass: Tensor
    at_bound: Tensor
    removed: tuple[Tensor, ...] = ()
    similarity: tuple[Tensor, ...] = ()
    targets: tuple[Tensor, ...] = ()


class SampleFacts(NamedTuple):
    """Known facts about the samples.

    This process has B samples and A = V·B anchors; all processes together have G samples and H further negatives.

    Attributes:
        class_probability: η, a single number or a tensor of shape (B,); None: the estimator's own.
        labels: (B + H',) class of each sample and further negative of this process.
        same_class: (B, G + H) bool, whether sample j has the class of anchor i, used instead of ``labels``.
        similarity: (A, G + H) or (A, K) known similarity to the anchors.
        positive_similarity: (A,) known similarity of the anchors and their own positives.
        exclude: (A, K) bool, columns that are not negatives; those with a target still attract.
        targets: (B, G + H), or (A, G + H) if the views of a sample have different targets; see :func:`checked_targets`.
    """

    class_probability: float | Tensor | None = None
    labels: Tensor | None = None
    same_class: Tensor | None = None
    similarity: Any = None
    positive_similarity: Tensor | None = None
    exclude: Tensor | None = None
    targets: Any = None


def contrastive_terms(
    loss: Any,
    positive: Tensor,
    anchors: Tensor,
    keys: Tensor | None,
    floor: float | Tensor,
    facts: SampleFacts,
    *,
    views: int,
    rank: int = 0,
    samples: int | None = None,
) -> ContrastiveTerms:
    r"""Compute the loss for A = V·B anchors: each of the B samples is an anchor once per view.

    .. math:: L_a = \operatorname{softplus}(\log N g - p) + (1 - T_p)\,p - \sum_n T_n u_n

    with targets T that sum to 1; without targets, :math:`T_p = 1`. If decoupled,
    :math:`L_a = \log N g - T_p\,p - \sum_n T_n u_n`, or 0 if no negatives remain.

    Args:
        loss: the loss module; its ``estimator``, ``decoupled``, ``chunk_size`` and ``gather_distributed`` are used.
        positive: (A,) or (A, M) logits.
        anchors: (A, D) embeddings; their inner products with the keys are the logits. If ``keys`` is None, the logits
            themselves, (A, K), with −∞ in the columns of the anchor's own sample.
        keys: (K, D) embeddings of the G samples of all processes, once per view, then of further negatives; or None.
        floor: log of the lower bound of g.
        facts: known facts about the samples.
        views: number of views V.
        rank: rank of this process among those that share the G samples.
        samples: G; None: there are no further negatives.

    Raises:
        ValueError: if shapes do not match, or an input required by the estimator is missing.
    """
    size, columns = anchors.shape[0], anchors.shape[1] if keys is None else keys.shape[0]
    count = size // views
    samples = columns // views if samples is None else samples
    negatives = columns - views
    if negatives < 1:
        raise ValueError(f"The number of samples is {samples}; expected at least 2; a single sample has no negatives.")
    estimator, chunk_size, etas = loss.estimator, loss.chunk_size, None
    further = columns - views * samples
    if isinstance(facts.class_probability, Tensor) and facts.class_probability.dim() > 0:
        etas = checked_shape("class_probability", facts.class_probability, (count,)).to(anchors.device)
    row = torch.arange(size, device=anchors.device)
    sample = row.remainder(count)
    own_columns = sample[:, None] + torch.arange(rank * count, views * samples, samples, device=anchors.device)
    if estimator.needs_similarity or facts.similarity is not None:
        checked_known("negative_similarity", facts.similarity, own_columns)
    if facts.positive_similarity is not None:
        checked_known("positive_similarity", checked_shape("positive_similarity", facts.positive_similarity, (size,)))
    if facts.exclude is not None and facts.exclude.dtype != torch.bool:
        raise ValueError(f"exclude is {facts.exclude.dtype}; expected bool.")
    if estimator.needs_labels and facts.same_class is None:
        local = checked_shape("labels", facts.labels, (count + further // (samples // count),))
        everyones = gathered_rows(local, count, loss.gather_distributed)[0]
    elif estimator.needs_labels:
        checked_shape("same_class", facts.same_class, (count, samples + further))
    targets, each_view = facts.targets, False
    if targets is not None:
        each_view = len(targets) == size
        targets = checked_targets(targets, (size if each_view else count, samples + further)).to(positive.dtype)
    whole = chunk_size is None or chunk_size >= size
    details: dict[str, Tensor | None] = {}

    def of_anchors(values: Any, row: Tensor) -> Tensor:
        return values if whole else values[row]

    def by_column(rows: Tensor) -> Tensor:
        return rows if rows.shape[1] == columns else rows.repeat(1, views)

    def of_rows(positive: Tensor, anchors: Tensor, row: Tensor, sample: Tensor, own_columns: Tensor) -> tuple[Tensor, ...]:
        logits = anchors if keys is None else (anchors @ keys.mT).scatter_(1, own_columns, -math.inf)
        first = positive if positive.dim() == 1 else positive[:, 0]
        attracted = first
        if targets is not None:
            chosen = targets[row if each_view else sample]
            others = (by_column(chosen) / views).scatter(1, own_columns, 0)
            own_share = chosen.gather(1, rank * count + sample[:, None])[:, 0]
            attracted = own_share * first + torch.linalg.vecdot(others, logits.masked_fill(others == 0, 0))
        options: dict[str, Any] = {"views": views}
        if estimator.needs_labels:
            same = local[sample, None] == everyones if facts.same_class is None else facts.same_class[sample]
            options["same_class"] = by_column(same)
        if estimator.needs_similarity:
            options["similarity"] = by_column(of_anchors(facts.similarity, row))
        if facts.positive_similarity is not None:
            options["positive_similarity"] = of_anchors(facts.positive_similarity, row)
        eta = facts.class_probability if etas is None else etas[sample]
        if facts.exclude is None:
            mass = estimator.mass(positive, logits, eta, floor, **options, count=negatives)
        else:
            valid = ~of_anchors(facts.exclude, row).scatter(1, own_columns, True)
            mass = estimator.mass_of_valid(positive, logits, valid, eta, floor, **options)
            logits = logits.masked_fill(~valid, -math.inf)
        if loss.decoupled:
            each = (mass.log - attracted).masked_fill(mass.log == -math.inf, 0)
        else:
            each = functional.softplus(mass.log - first)
            each = each if targets is None else each + first - attracted
        if whole:
            reads = estimator.needs_similarity or mass.removed is None
            similarity = by_column(facts.similarity) if reads and facts.similarity is not None else None
            details.update(logits=logits, removed=mass.removed, similarity=similarity, targets=targets)
        return each, mass.log, mass.at_bound

    each, log_mass, at_bound = by_chunks(of_rows, chunk_size, positive, anchors, row, sample, own_columns)
    optional = {name: (value,) for name, value in details.items() if value is not None}
    return ContrastiveTerms(each.mean(), positive.view(size, -1), optional.pop("logits", ()), log_mass, at_bound, **optional)


def checked_known(name: str, similarity: Tensor | None, own_columns: Tensor | None = None) -> None:
    """Check that a known similarity is not missing and, on a CPU, that it has no NaN where it is used.

    Args:
        name: its name, for messages.
        similarity: values, (A,), (A, G + H) or (A, K).
        own_columns: (A, V) column indices of the V views of each anchor's own sample, where NaN is allowed.

    Raises:
        ValueError: if it is missing, or contains NaN. On an accelerator, values are not read.
    """
    if similarity is None:
        raise ValueError(f"{name} is missing; the estimator needs it.")
    if similarity.device.type != "cpu" or not similarity.sum().isnan():  # the sum takes a twentieth of the time
        return
    wrong = similarity.isnan()
    if own_columns is not None:
        wrong.scatter_(1, own_columns % similarity.shape[1], False)  # with one column per sample, all views share it
    if wrong.any():
        raise ValueError(f"{name} contains NaN; expected numbers.")


def checked_targets(targets: Tensor, shape: Sequence[int]) -> Tensor:
    """Return soft targets without their gradient, after checking them; rows sum to 1.

    Raises:
        ValueError: if the shape is wrong, or a row does not sum to 1 within 1e-4; on an accelerator, such a row becomes NaN.
    """
    targets = checked_shape("targets", targets, shape).detach()
    wrong = ~((targets.sum(1) - 1).abs() <= TOLERANCE)  # NaN is wrong, too
    if targets.device.type != "cpu":
        return targets.masked_fill(wrong[:, None], math.nan)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(f"targets: row {row} sums to {targets[row].sum():g}; expected 1 (within {TOLERANCE:g}) in every row.")
    return targets


def joined(parts: list[ContrastiveTerms]) -> ContrastiveTerms:
    """Combine the terms of several equally large groups of anchors."""
    if len(parts) == 1:
        return parts[0]
    losses, positives, logits, masses, at_bounds, *details = zip(*parts, strict=True)
    together = torch.cat(positives), tuple(itertools.chain(*logits)), torch.cat(masses), torch.cat(at_bounds)
    return ContrastiveTerms(torch.stack(losses).mean(), *together, *(tuple(itertools.chain(*each)) for each in details))

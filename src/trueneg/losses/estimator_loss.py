"""What the contrastive losses share: the estimator, the anchors' loss, its computation in chunks,
and the state of methods that remember samples.
"""

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, ParamSpec

import torch
from torch import Tensor, nn

from trueneg.losses.anchors import SCOPES, Anchors, NegativeMass
from trueneg.losses.base import AnchorCriterion, checked_estimator
from trueneg.losses.checks import checked_choice, checked_count
from trueneg.losses.execution import by_chunks
from trueneg.losses.facts import Everyone, SampleFacts, checked_targets
from trueneg.losses.layout import Layout
from trueneg.losses.targets import Rule

REDUCTIONS = ("mean", "none")
Parameters = ParamSpec("Parameters")


class ContrastiveTerms(NamedTuple):
    """A contrastive loss and the terms it is computed from, for A anchors, K columns and M
    positives.

    Attributes:
        loss: scalar, the mean over the anchors; with ``reduction="none"``, (A,).
        positive: (A, M) logits; the first column is the anchor's own positive.
        logits: one tensor per direction, with K columns for all samples and −∞ in the columns of
            the anchor's own sample. Empty if the loss is computed in chunks.
        log_negative_mass: (A,) the estimator's log(N·g).
        at_bound: (A,) bool, True where log(N·g) is at its lower bound, so the anchor's negatives
            get no gradient.
        removed: (A, K) share of each negative that the estimator leaves out, one tensor per
            direction; columns where the logits are −∞ hold arbitrary values. Empty if the loss is
            computed in chunks, or the estimator leaves nothing out.
        targets: (B, S) or (A, S) soft targets, one tensor per direction; empty if there are none.
        log_averages: (A,) new log averages of the anchors' masses; None: the estimator keeps none.
        removed_hard: (A,) share of each anchor's hard negatives that the estimator leaves out, NaN
            for those without any; None if there are none.
    """

    loss: Tensor
    positive: Tensor
    logits: tuple[Tensor, ...]
    log_negative_mass: Tensor
    at_bound: Tensor
    removed: tuple[Tensor, ...] = ()
    targets: tuple[Tensor, ...] = ()
    log_averages: Tensor | None = None
    removed_hard: Tensor | None = None

    def share_removed(self) -> Tensor:
        """Return the share of each anchor's negatives that the estimator leaves out, (A,); NaN if
        the loss is computed in chunks.
        """
        if not self.removed:
            return torch.full_like(self.log_negative_mass, 0 if self.logits else math.nan)
        shares = []
        for removed, logits in zip(self.removed, self.logits, strict=True):
            valid = ~logits.isneginf()
            shares.append((removed * valid).sum(1) / valid.sum(1).clamp(min=1))
        return torch.cat(shares)


def scalar(
    terms: Callable[Parameters, ContrastiveTerms],
) -> Callable[Parameters, Tensor]:
    """Return the method ``forward`` of a loss: it takes the arguments of ``terms``, and returns
    the loss alone.
    """

    @functools.wraps(terms)
    def forward(*arguments: Parameters.args, **facts: Parameters.kwargs) -> Tensor:
        return terms(*arguments, **facts).loss

    return forward


class EstimatorLoss(nn.Module):
    """Base class of the losses whose denominator holds an estimate of the true-negative mass.

    Attributes:
        share_at_bound: scalar tensor, the share of the latest call's anchors that are at the
            estimator's lower bound; NaN before the first call.
        share_of_hard_removed: scalar tensor, the share of the latest call's hard negatives that the
            estimator left out; NaN if there were none.
        keeps_averages: whether calls in training mode keep the new averages of their samples;
            otherwise, call :meth:`keep`, once for several calls with the same samples.
    """

    sides: int = 1  # directions
    keeps_averages: bool = True

    def __init__(
        self,
        estimator: AnchorCriterion,
        decoupled: bool,
        chunk_size: int | None,
        gather_distributed: bool,
        target_rule: Rule | None,
        negatives: str,
        reduction: str,
    ):
        super().__init__()
        self.estimator = checked_estimator(estimator)
        self.decoupled = decoupled
        self.chunk_size = checked_count("chunk_size", chunk_size, "anchors")
        self.gather_distributed = gather_distributed
        self.target_rule = target_rule
        self.negatives = checked_choice("negatives", negatives, SCOPES)
        self.reduction = checked_choice("reduction", reduction, REDUCTIONS)
        self.share_at_bound = self.share_of_hard_removed = torch.tensor(math.nan)

    @property
    def remembers(self) -> bool:
        """Whether a call changes what is remembered of its samples: in training mode."""
        return self.training

    def finished(self, terms: ContrastiveTerms, index: Tensor | None) -> ContrastiveTerms:
        """Keep what is logged of a call and remembered of its samples, and return its terms."""
        removed = terms.removed_hard
        self.share_at_bound = terms.at_bound.detach().float().mean()
        self.share_of_hard_removed = (
            torch.tensor(math.nan) if removed is None else removed.nanmean()
        )
        if index is not None and self.keeps_averages:
            self.keep(index, terms)
        return terms

    @torch.no_grad()
    def keep(self, index: Tensor, *terms: ContrastiveTerms) -> None:
        """Keep the new averages of a batch, in training mode.

        Args:
            index: (B,) numbers of the samples.
            terms: the terms of one or several calls with the same samples; the mean of their
                averages is kept.
        """
        averages = [each.log_averages for each in terms if each.log_averages is not None]
        if self.remembers and averages:
            estimator: Any = self.estimator
            estimator.store(index, torch.cat(averages).view(-1, self.sides, len(index)))

    def of_anchors(
        self,
        layout: Layout,
        positive: Tensor,
        anchors: Tensor,
        keys: Tensor | None,
        temperature: float | Tensor,
        facts: SampleFacts,
        partners: int = 1,
        side: int = 0,
    ) -> ContrastiveTerms:
        """Compute the loss of all anchors of this process.

        Args:
            layout: what the rows and columns of the logits are.
            positive: (A,) or (A, M) logits.
            anchors: (A, D) embeddings; their inner products with the keys are the logits. If
                ``keys`` is None, the logits themselves, (A, K), with −∞ in the columns of the
                anchor's own sample.
            keys: (K, D) embeddings; or None.
            temperature: t, by which similarities were divided.
            facts: known facts about the samples.
            partners: number of each anchor's own positives, the first columns of ``positive``.
            side: number of the direction.

        Raises:
            ValueError: if shapes do not match, or an input required by the estimator is missing.
        """
        rows = self.rows_of(layout, positive, keys, temperature, facts, partners)
        facts = rows.facts
        rows.recalled.update(self._recalled(rows, anchors, side))
        if self.chunk_size is None or self.chunk_size >= len(anchors):
            found = rows.of(positive, anchors, None)
        else:
            parts = by_chunks(
                lambda *chunk: rows.of(*chunk)[:5],
                self.chunk_size,
                *(positive, anchors, layout.all_anchors),
            )
            found = AnchorTerms(*parts)
        keeps = self.estimator.keeps_average
        return ContrastiveTerms(
            found.each.mean() if self.reduction == "mean" else found.each,
            positive.view(len(anchors), -1),
            present(found.logits),
            found.log_mass,
            found.at_bound,
            removed=present(found.removed),
            targets=present(facts.targets) if found.logits is not None else (),
            log_averages=found.log_average if keeps else None,
            removed_hard=found.removed_hard if layout.hard else None,
        )

    def rows_of(
        self,
        layout: Layout,
        positive: Tensor,
        keys: Tensor | None,
        temperature: float | Tensor,
        facts: SampleFacts,
        partners: int = 1,
    ) -> "AnchorRows":
        """Return what computes the terms of anchors, with checked facts; see :meth:`of_anchors`."""
        if self.negatives == "hard" and layout.hard == 0:
            raise ValueError(
                'negatives is "hard", but these anchors have no hard negatives; expected some.'
            )
        facts = facts.checked(
            layout, self.estimator, self.target_rule, positive.dtype, self.gather_distributed
        )
        facts = replace(facts, targets=self._targets(layout, facts, positive.dtype))
        return AnchorRows(self, layout, keys, temperature, facts, partners)

    def _targets(self, layout: Layout, facts: SampleFacts, dtype: torch.dtype) -> Tensor | None:
        """Return the targets that are passed, or those of the rule; None: one-hot targets."""
        targets = facts.targets
        rule = self.target_rule
        if targets is None and rule is not None:
            needs_labels = getattr(rule, "needs_labels", False)
            known = facts.shares_class(layout, None) if needs_labels else facts.similarity
            targets = rule(layout, known)
        if not self.estimator.combines and (self.decoupled or targets is not None):
            raise ValueError(
                f"{self.estimator} is not a softmax; expected neither targets nor decoupled=True."
            )
        return None if targets is None else checked_targets(targets, layout).to(dtype)

    @torch.no_grad()
    def _recalled(self, rows: "AnchorRows", anchors: Tensor, side: int) -> dict[str, Tensor]:
        """Return what the estimator remembers of the anchors' samples, (A,) by field of
        :class:`~trueneg.losses.anchors.Anchors`; in training mode, thresholds are learned first.
        """
        estimator: Any = self.estimator
        if not (estimator.keeps_average or estimator.keeps_threshold):
            return {}
        index = rows.facts.index
        if index is None:
            raise ValueError(
                f"index is missing; {estimator} remembers each sample by its number among all"
                " training samples."
            )
        if estimator.keeps_average:
            stored = estimator.averages_of(index, side)
            return {"log_average": stored.repeat(rows.layout.views)}
        if self.remembers:
            shares, has_negatives = rows.shares_above(estimator.thresholds_of(index, side), anchors)
            estimator.learn(index, shares, has_negatives, side)
        return {"threshold": estimator.thresholds_of(index, side).repeat(rows.layout.views)}


class AnchorTerms(NamedTuple):
    """What is computed of each anchor; the last two, of whole batches only."""

    each: Tensor
    log_mass: Tensor
    at_bound: Tensor
    log_average: Tensor
    removed_hard: Tensor
    logits: Tensor | None = None
    removed: Tensor | None = None


@dataclass
class AnchorRows:
    """Computes the terms of some anchors of a batch.

    Attributes:
        loss: the loss.
        layout: see :meth:`EstimatorLoss.of_anchors`, also for the others.
        keys: keys.
        temperature: t.
        facts: checked facts.
        partners: number of own positives.
        recalled: what the estimator remembers of the anchors, (A,) each.
    """

    loss: EstimatorLoss
    layout: Layout
    keys: Tensor | None
    temperature: float | Tensor
    facts: SampleFacts
    partners: int
    recalled: dict[str, Tensor] = field(default_factory=dict)

    def of(self, positive: Tensor, anchors: Tensor, indices: Tensor | None) -> AnchorTerms:
        """Return the terms of anchors.

        Args:
            positive: (a,) or (a, M) logits.
            anchors: (a, D) embeddings or (a, K) logits.
            indices: (a,) numbers of the anchors; None: all of the batch.
        """
        seen, left_out = self.seen(positive, anchors, indices)
        logits = seen.negatives
        targets = self.facts.targets
        weights = None if targets is None else self.layout.weights(targets, indices)
        each, mass = self.loss.estimator.losses(seen, left_out, weights, self.loss.decoupled)
        average = mass.log if mass.log_average is None else mass.log_average
        kept = logits if left_out is None else logits.masked_fill(left_out, -math.inf)
        hard = share_of_hard(seen, left_out, mass)
        return AnchorTerms(each, mass.log, mass.at_bound, average, hard, kept, mass.removed)

    def seen(
        self, positive: Tensor, anchors: Tensor, indices: Tensor | None
    ) -> tuple[Anchors, Tensor | None]:
        """Return what the estimator sees of anchors, and which columns are not negatives, (a, K)
        bool; None: the own ones only.
        """
        layout = self.layout
        logits = self._logits(anchors, indices)
        recalled = {name: layout.rows(each, indices) for name, each in self.recalled.items()}
        seen = Anchors(
            positive,
            logits,
            count=layout.columns - layout.views,
            temperature=self.temperature,
            hard=layout.is_hard(indices, self.facts.owners) if layout.hard else None,
            views=layout.views,
            further=layout.further,
            partners=self.partners,
            **self.facts.of_anchors(layout, self.loss.estimator, indices),
            **recalled,
        )
        return seen, self._left_out(seen, indices)

    def shares_above(self, thresholds: Tensor, anchors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the share of each sample's negatives in the batch that exceed its threshold, and
        whether it has any, (B,) each; hard negatives and the queue, which are no random samples, do
        not count.
        """
        layout = self.layout
        everyone = Everyone(layout, self.loss.gather_distributed)
        index: Any = self.facts.index
        columns = layout.by_column(everyone.of_samples("index", index, missing=-1)[None])
        shares = []
        has_negatives = []
        indices = layout.all_anchors
        size = self.loss.chunk_size or len(anchors)
        for part, own in zip(anchors.split(size), indices.split(size), strict=True):
            # rounding can make the cosine of equal embeddings exceed 1
            cosines = (self._logits(part, own) * self.temperature).clamp(max=1)
            is_negative = (columns != layout.rows(index, own)[:, None]) & (columns >= 0)
            if (excluded := self._excluded(own)) is not None:
                is_negative &= ~excluded
            is_above = (cosines > layout.rows(thresholds, own)[:, None]) & is_negative
            number = is_negative.sum(1)
            shares.append(is_above.sum(1, dtype=thresholds.dtype) / number.clamp(min=1))
            has_negatives.append(number > 0)
        of_views = torch.cat(shares).view(layout.views, layout.count)
        return of_views.mean(0), torch.cat(has_negatives)[: layout.count]

    def _logits(self, anchors: Tensor, indices: Tensor | None) -> Tensor:
        if self.keys is None:
            return anchors
        return self.layout.hide_own(anchors @ self.keys.mT, indices)

    def _excluded(self, indices: Tensor | None) -> Tensor | None:
        """Return (a, K) bool, the columns that facts exclude from the negatives; None: none."""
        if self.facts.exclude is None:
            return None
        return self.layout.by_column(self.layout.rows(self.facts.exclude, indices))

    def _left_out(self, seen: Anchors, indices: Tensor | None) -> Tensor | None:
        """Return (a, K) bool, the columns that are not negatives; None: the own ones only."""
        layout = self.layout
        left_out = None
        if layout.columns == layout.views:  # a batch of one
            left_out = layout.is_own(indices)
        if (excluded := self._excluded(indices)) is not None:
            left_out = excluded | layout.is_own(indices)
        if self.loss.negatives != "all":
            outside = ~seen.in_scope(self.loss.negatives) | layout.is_own(indices)
            left_out = outside if left_out is None else outside | left_out
        return left_out


def present(value: Tensor | None) -> tuple[Tensor, ...]:
    """Return a tuple of the value, or an empty one."""
    return () if value is None else (value,)


def share_of_hard(anchors: Anchors, left_out: Tensor | None, mass: NegativeMass) -> Tensor:
    """Return the share of each anchor's hard negatives that the estimator leaves out, (A,); NaN if
    it has none.
    """
    if anchors.hard is None:
        return torch.full_like(mass.log, math.nan)
    is_hard = anchors.hard & anchors.is_negative
    if left_out is not None:
        is_hard = is_hard & ~left_out
    removed = is_hard & False if mass.removed is None else mass.removed * is_hard
    return removed.sum(1) / is_hard.sum(1)


def joined(parts: list[ContrastiveTerms]) -> ContrastiveTerms:
    """Combine the terms of several equally large groups of anchors."""
    if len(parts) == 1:
        return parts[0]
    is_mean = parts[0].loss.dim() == 0
    terms = ContrastiveTerms(*map(_together, zip(*parts, strict=True)))
    return terms._replace(loss=terms.loss.mean()) if is_mean else terms


def _together(values: Iterable[Any]) -> Any:
    """Return a field of several terms as one: tensors or tuples one after the other, None left
    out.
    """
    values = [value for value in values if value is not None]
    if values and isinstance(values[0], tuple):
        return sum(values, ())
    return torch.cat([torch.atleast_1d(value) for value in values]) if values else None

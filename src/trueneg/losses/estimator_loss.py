"""What the contrastive losses share: the estimator, the anchors' loss, and its computation in
chunks.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from trueneg.losses.anchor_loss import anchor_loss
from trueneg.losses.base import Estimator, checked_estimator, own_positive
from trueneg.losses.execution import by_chunks, checked_chunk_size
from trueneg.losses.facts import SampleFacts
from trueneg.losses.layout import Layout
from trueneg.losses.targets import Rule


class ContrastiveTerms(NamedTuple):
    """A contrastive loss and the terms it is computed from, for A anchors, K columns and M
    positives.

    Attributes:
        loss: scalar, the mean over the anchors.
        positive: (A, M) logits; the first column is the anchor's own positive.
        logits: one tensor per direction, with K columns for all samples and −∞ in the columns of
            the anchor's own sample. Empty if the loss is computed in chunks.
        log_negative_mass: (A,) the estimator's log(N·g).
        at_bound: (A,) bool, True where log(N·g) is at its lower bound, so the anchor's negatives
            get no gradient.
        removed: (A, K) share of each negative that the estimator leaves out, one tensor per
            direction; columns where the logits are −∞ hold arbitrary values. Empty if the loss is
            computed in chunks, or the estimator leaves nothing out.
        targets: (B, G + H) or (A, G + H) soft targets, one tensor per direction; empty if there are
            none.
    """

    loss: Tensor
    positive: Tensor
    logits: tuple[Tensor, ...]
    log_negative_mass: Tensor
    at_bound: Tensor
    removed: tuple[Tensor, ...] = ()
    targets: tuple[Tensor, ...] = ()


class EstimatorLoss(nn.Module):
    """Base class of the losses whose denominator holds an estimate of the true-negative mass."""

    def __init__(
        self,
        estimator: Estimator,
        decoupled: bool,
        chunk_size: int | None,
        gather_distributed: bool,
        target_rule: Rule | None,
    ):
        super().__init__()
        self.estimator = checked_estimator(estimator)
        self.decoupled = decoupled
        self.chunk_size = checked_chunk_size(chunk_size)
        self.gather_distributed = gather_distributed
        self.target_rule = target_rule

    def of_anchors(
        self,
        layout: Layout,
        positive: Tensor,
        anchors: Tensor,
        keys: Tensor | None,
        temperature: float | Tensor,
        facts: SampleFacts,
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

        Raises:
            ValueError: if shapes do not match, or an input required by the estimator is missing.
        """
        if layout.columns == layout.views:
            raise ValueError(
                f"The number of samples is {layout.samples}; expected at least 2; a single sample"
                " has no negatives."
            )
        if facts.targets is None and self.target_rule is not None:
            facts = facts._replace(targets=self.target_rule(layout, facts.similarity))
        if not self.estimator.combines and (self.decoupled or facts.targets is not None):
            raise ValueError(
                f"{self.estimator} is not a softmax; expected neither targets nor decoupled=True."
            )
        facts = facts.checked(layout, self.estimator, positive.dtype, self.gather_distributed)
        count = layout.columns - layout.views

        def of_rows(
            positive: Tensor, anchors: Tensor, indices: Tensor | None
        ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
            logits = anchors if keys is None else layout.hide_own(anchors @ keys.mT, indices)
            known = facts.of_estimator(layout, self.estimator, indices)
            known["temperature"] = temperature
            kept = logits
            if facts.exclude is None:
                mass = self.estimator.mass(positive, logits, count=count, **known)
            else:
                own = layout.own_columns(indices)
                excluded = layout.rows(facts.exclude, indices).scatter(1, own, True)
                kept = logits.masked_fill(excluded, -math.inf)
                mass = self.estimator.mass_of_valid(positive, logits, ~excluded, **known)
            targets = None if facts.targets is None else layout.weights(facts.targets, indices)
            each = anchor_loss(mass.log, own_positive(positive), logits, targets, self.decoupled)
            return each, mass.log, mass.at_bound, kept, mass.removed

        positives = positive.view(len(anchors), -1)
        if self.chunk_size is not None and self.chunk_size < len(anchors):
            rows = positive, anchors, layout.all_anchors
            each, log_mass, at_bound = by_chunks(
                lambda *chunk: of_rows(*chunk)[:3], self.chunk_size, *rows
            )
            return ContrastiveTerms(each.mean(), positives, (), log_mass, at_bound)
        each, log_mass, at_bound, kept, removed = of_rows(positive, anchors, None)
        details = [() if value is None else (value,) for value in (removed, facts.targets)]
        return ContrastiveTerms(each.mean(), positives, (kept,), log_mass, at_bound, *details)


def joined(parts: list[ContrastiveTerms]) -> ContrastiveTerms:
    """Combine the terms of several equally large groups of anchors."""
    if len(parts) == 1:
        return parts[0]
    losses, positives, logits, masses, at_bounds, removed, targets = zip(*parts, strict=True)
    return ContrastiveTerms(
        torch.stack(losses).mean(),
        torch.cat(positives),
        sum(logits, ()),
        torch.cat(masses),
        torch.cat(at_bounds),
        sum(removed, ()),
        sum(targets, ()),
    )

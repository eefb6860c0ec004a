"""Monitors of an objective's effect on anchors, grouped by class frequency; they use labels, and do not affect the loss."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trueneg.losses.contrastive import ContrastiveTerms

GROUPS = ("common", "rare", "unknown")
MASK = ("mask precision", "mask recall", "mask AUC")
RANKED = 64  # anchors of a batch whose AUC is measured: ranking all of them would cost as much as the loss


def marks_negatives(loss: Any) -> bool:
    """Return whether a loss marks individual negatives as false, so that its mask can be compared with the truth."""
    return loss.estimator.marks or getattr(loss.target_rule, "marks", False)


class Agreement(NamedTuple):
    """Agreement of a mask with the truth, as sums over the negatives of each of A anchors.

    Attributes:
        hits: (A,) false negatives that are marked.
        marked: (A,) marked negatives.
        false: (A,) false negatives.
        area: (A,) AUC of the score for ranking false above true negatives; 0 for anchors that are not ranked.
        ranked: (A,) number of AUCs: 1 for anchors with both kinds among the first RANKED, otherwise 0.
    """

    hits: Tensor
    marked: Tensor
    false: Tensor
    area: Tensor
    ranked: Tensor

    def values(self) -> list[Tensor]:
        """Return precision, recall and AUC of each anchor."""
        return [self.hits / self.marked.clamp(min=1), self.hits / self.false.clamp(min=1), self.area / self.ranked.clamp(min=1)]

    def weights(self) -> list[Tensor]:
        """Return the weights that make means of :meth:`values` means over all negatives (for the AUC, over ranked anchors)."""
        return [self.marked, self.false, self.ranked]


class ObjectiveTerms(NamedTuple):
    """Loss of a batch of pairs; for each pair, the share of its anchors at the bound and the share of its negatives removed.

    Attributes:
        loss: scalar.
        at_bound: (B,) share of a pair's anchors (in all directions) whose estimate is at its lower bound or that are switched
            off, so their negatives get no gradient.
        removed: (B,) share of the negatives of a pair's anchors (in all directions) that are left out. A negative whose weight
            is reduced counts in part: one minus its weight, relative to a negative of similarity 0.
        mask: (5, B) :class:`Agreement` of the pairs' anchors with the known matches, summed over directions; (0, B) if the
            objective marks nothing, or nothing is known.
    """

    loss: Tensor
    at_bound: Tensor
    removed: Tensor
    mask: Tensor


def agreement(terms: ContrastiveTerms, false: Sequence[Tensor], labelled: Sequence[Tensor]) -> Agreement:
    """Compare the negatives that a loss marks with the known false ones.

    Negatives are ranked by the known similarity if the estimator uses one, otherwise by the logits.

    Args:
        terms: terms of a loss that marks negatives.
        false: (A, K) bool per direction, whether a column has the anchor's class.
        labelled: bool per direction, broadcastable to (A, K), whether this is known.
    """
    parts = []
    for number, logits in enumerate(terms.logits):
        valid = ~logits.isneginf() & labelled[number]
        if terms.removed and terms.removed[number].dtype == torch.bool:  # a mask, not one minus a weight
            marked = terms.removed[number]
        else:
            marked = (terms.targets[number] > 0).repeat(len(logits) // len(terms.targets[number]), 1)
            marked = marked.repeat(1, logits.shape[1] // marked.shape[1])
        score = terms.similarity[number] if terms.similarity else logits
        truth, marked = false[number] & valid, marked & valid
        area = torch.zeros(len(logits), dtype=torch.float64, device=logits.device)
        ranked = torch.zeros_like(area)
        first = slice(RANKED)
        area[first], ranked[first] = _areas(score[first].double(), truth[first], valid[first])
        hits, marks, positives = (each.sum(1).double() for each in (truth & marked, marked, truth))
        parts.append(Agreement(hits, marks, positives, area, ranked))
    return Agreement(*(torch.cat(each) for each in zip(*parts, strict=True)))


def _areas(score: Tensor, false: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's AUC (ties count half), and a flag: 1 if the row has both false and true negatives, else 0."""
    true = valid & ~false
    counts = true.sum(1)
    ordered = score.masked_fill(~true, torch.inf).sort(1).values
    below = [torch.searchsorted(ordered, score.contiguous(), right=right).minimum(counts[:, None]) for right in (False, True)]
    share = ((below[0] + below[1]).double() / 2 / counts[:, None].clamp(min=1) * false).sum(1) / false.sum(1).clamp(min=1)
    both = (counts > 0) & false.any(1)
    return share * both, both.double()


class RunningMeans(nn.Module):
    """Means over an epoch, accumulated on the device: scalars per step, and values per anchor by group.

    Args:
        scalars: names of the S scalars.
        values: names of the V values.
        groups: names of the G groups; a column's name is the value followed by the group.
        device: device used for training.
    """

    def __init__(self, scalars: Sequence[str], values: Sequence[str], groups: Sequence[str], device: torch.device):
        super().__init__()
        self._scalars, self._columns = scalars, [f"{value} {group}".strip() for group in groups for value in values]
        zeros = functools.partial(torch.zeros, dtype=torch.float64, device=device)
        self.totals, self.steps = nn.Buffer(zeros(len(scalars))), nn.Buffer(zeros(()))
        self.sums, self.counts = (nn.Buffer(zeros(len(groups), len(values))) for _ in range(2))

    def read(self) -> dict[str, float]:
        """Return the means since the last call. NaN if a group had no anchors."""
        values = torch.cat([self.totals / self.steps.clamp(min=1), (self.sums / self.counts).flatten()]).tolist()
        for total in self.buffers():
            total.zero_()
        return dict(zip([*self._scalars, *self._columns], values, strict=True))

    def _add(self, scalars: Sequence[Tensor], members: Tensor, values: Sequence[Tensor], counted: Sequence[Tensor]) -> None:
        """Add a step of A anchors: S scalars, (G, A) bool members, V values (A,), and V masks (A,) of the anchors to count."""
        counts, sums = (torch.stack([each.double() for each in columns], dim=1) for columns in (counted, values))
        # Matrix products instead of scatter-add, which has no fixed order of additions on a GPU.
        self.sums.add_(members.double() @ (sums * counts))
        self.counts.add_(members.double() @ counts)
        self.totals.add_(torch.stack([value.double() for value in scalars]))
        self.steps.add_(1)


class ViewMonitors(RunningMeans):
    """Monitors for two-view training.

    For every anchor of known class with positive logit p and negative logits u:

    * share at the bound: whether the estimate of the negative mass was replaced by its lower bound;
    * same-class to positive ratio: mean of e^u over the negatives of the anchor's own class, divided by e^p. A debiased loss
      uses e^p in place of that mean; a ratio below 1 means that it subtracts too much;
    * estimated mean: the objective's own N·g, divided by N;
    * true mean: the mean of e^u over the negatives of other known classes, which a debiased loss is meant to estimate;
    * precision, recall and AUC of the negatives marked as false, for objectives that mark some (:func:`agreement`).

    Args:
        rare: (C,) bool, whether a class is rare.
        device: device used for training.
        marks: whether the objective marks negatives.
    """

    def __init__(self, rare: Tensor, device: torch.device, marks: bool = False):
        values = ("share at bound", "same-class to positive ratio", "estimated mean", "true mean")
        super().__init__(("loss",), (*values, *(MASK if marks else ())), GROUPS[:2], device)
        self._rare, self._marks = rare.to(device), marks

    @torch.no_grad()
    def add(self, terms: ContrastiveTerms, labels: Tensor) -> None:
        """Add a step.

        Args:
            terms: terms of the loss for its 2B anchors.
            labels: (B,) classes of the images; below 0 if unknown.
        """
        # float64 can represent e^(±2/t) down to t = 0.01; the cost is negligible compared with the network.
        positive, mass = terms.positive[..., 0].double(), terms.logits[0].double().exp()  # 0 for the anchor's own sample
        same = (labels[:, None] == labels).repeat(2, 2)
        same_count = same.sum(1) - 2  # without both views of its own sample
        labelled = (labels >= 0).repeat(2)
        true = labelled & ~same
        true_count = true.sum(1)
        same_mass = (mass * same).sum(1)
        values = [
            terms.at_bound,
            same_mass / same_count.clamp(min=1) / positive.exp(),
            terms.log_negative_mass.double().exp() / (mass.shape[1] - 2),
            (mass * true).sum(1) / true_count.clamp(min=1),
        ]
        every, rare = torch.ones_like(positive), self._rare[labels.clamp(min=0)].repeat(2)
        members = torch.stack([labelled & ~rare, labelled & rare])
        counted = [every, same_count > 0, every, true_count > 0]
        if self._marks:
            mask = agreement(terms, [same], [labelled])
            values, counted = values + mask.values(), counted + mask.weights()
        self._add([terms.loss], members, values, counted)


class PairMonitors(RunningMeans):
    """Monitors for training on image–sentence pairs.

    Args:
        groups: (S,) class group of each training sentence: 0 common, 1 rare, 2 unknown.
        marks: whether the objective marks negatives, and the source knows which are false.
    """

    def __init__(self, groups: Tensor, marks: bool = False):
        scalars = ("loss", "contrastive loss", "masked word loss", "similarity of pairs")
        super().__init__(scalars, ("share at bound", "share removed", *(MASK if marks else ())), ("", *GROUPS), groups.device)
        self._groups = groups

    @torch.no_grad()
    def add(self, terms: ObjectiveTerms, masked_loss: Tensor, positive: Tensor, sentences: Tensor) -> None:
        """Add a step.

        Args:
            terms: contrastive loss and the terms of the B pairs.
            masked_loss: masked-word loss, a scalar.
            positive: (B,) similarity of the pairs.
            sentences: (B,) sentence indices of the batch.
        """
        groups, every = self._groups[sentences], torch.ones_like(terms.at_bound)
        members = torch.stack([every.bool(), *(groups == number for number in range(len(GROUPS)))])
        scalars = [terms.loss.double() + masked_loss.double(), terms.loss, masked_loss, positive.double().mean()]
        values, counted = [terms.at_bound, terms.removed], [every, every]
        if len(terms.mask):
            mask = Agreement(*terms.mask)
            values, counted = values + mask.values(), counted + mask.weights()
        self._add(scalars, members, values, counted)

"""Monitors of an objective's effect on anchors, grouped by class frequency; they use labels, and do
not affect the loss.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trueneg.losses.contrastive import ContrastiveTerms

GROUPS = ("common", "rare", "unknown")
MEANS = ("same-class to positive ratio", "estimated mean", "true mean")
MASK = ("mask precision", "mask recall")


def marks_negatives(loss: Any) -> bool:
    """Return whether a loss marks individual negatives as false, so that its mask can be compared
    with the truth.
    """
    return loss.estimator.marks or getattr(loss.target_rule, "marks", False)


class Agreement(NamedTuple):
    """Agreement of a mask with the truth, as sums over the negatives of each of A anchors.

    Attributes:
        hits: (A,) false negatives that are marked.
        marked: (A,) marked negatives.
        false: (A,) false negatives.
    """

    hits: Tensor
    marked: Tensor
    false: Tensor

    def values(self) -> list[Tensor]:
        """Return precision and recall of each anchor."""
        return [self.hits / self.marked.clamp(min=1), self.hits / self.false.clamp(min=1)]

    def weights(self) -> list[Tensor]:
        """Return the weights that make means of :meth:`values` means over all negatives."""
        return [self.marked, self.false]


class Means(NamedTuple):
    """What debiasing assumes and estimates, for each of A anchors with positive logit p and
    negative logits u.

    Attributes:
        ratio: (A,) mean of e^u over the negatives of the anchor's own class, divided by e^p, if it
            has any, else 0. A debiased loss uses e^p in place of that mean; a ratio below 1 means
            that it subtracts too much.
        with_same: (A,) 1 if the anchor has negatives of its own class, else 0.
        estimated: (A,) the objective's own N·g, divided by N.
        known: (A,) 1 if the anchor's class is known and N·g is a mass of negatives, else 0.
        true: (A,) mean of e^u over the negatives of other known classes, which a debiased loss is
            meant to estimate, or 0.
        with_true: (A,) 1 if there are such negatives, else 0.
    """

    ratio: Tensor
    with_same: Tensor
    estimated: Tensor
    known: Tensor
    true: Tensor
    with_true: Tensor

    def values(self) -> list[Tensor]:
        """Return the mean of each kind over the anchors that have it; the fields may be sums over
        several of them.
        """
        return [
            value / number.clamp(min=1) for value, number in zip(self[::2], self[1::2], strict=True)
        ]

    def weights(self) -> list[Tensor]:
        """Return the number of anchors that have each of :meth:`values`."""
        return list(self[1::2])


class ObjectiveTerms(NamedTuple):
    """Loss of a batch of pairs; for each pair, the share of its anchors at the bound and the share
    of its negatives removed.

    Attributes:
        loss: scalar.
        at_bound: (B,) share of a pair's anchors (in all directions) whose estimate is at its lower
            bound or that are switched off, so their negatives get no gradient.
        removed: (B,) share of the negatives of a pair's anchors (in all directions) that are left
            out. A negative whose weight is reduced counts in part: one minus its weight, relative
            to a negative of similarity 0.
        mask: (3, B) :class:`Agreement` of the pairs' anchors with the known matches, summed over
            directions; (0, B) if the objective marks nothing, or nothing is known.
        means: (6, B) :class:`Means` of the pairs' anchors, summed over directions; (0, B) if
            nothing is known.
    """

    loss: Tensor
    at_bound: Tensor
    removed: Tensor
    mask: Tensor
    means: Tensor


def agreement(
    terms: ContrastiveTerms, false: Sequence[Tensor], labelled: Sequence[Tensor]
) -> Agreement:
    """Compare the negatives that a loss marks with the known false ones.

    Args:
        terms: terms of a loss that marks negatives.
        false: (A, K) bool per direction, whether a column has the anchor's class.
        labelled: bool per direction, broadcastable to (A, K), whether this is known.
    """
    parts = []
    for number, logits in enumerate(terms.logits):
        valid = ~logits.isneginf() & labelled[number]
        # a mask, not one minus a weight
        if terms.removed and terms.removed[number].dtype == torch.bool:
            marked = terms.removed[number]
        else:
            marked = (terms.targets[number] > 0).repeat(
                len(logits) // len(terms.targets[number]), 1
            )
            marked = marked.repeat(1, logits.shape[1] // marked.shape[1])
        truth, marked = false[number] & valid, marked & valid
        parts.append(Agreement(*(each.sum(1).double() for each in (truth & marked, marked, truth))))
    return Agreement(*(torch.cat(each) for each in zip(*parts, strict=True)))


def means(
    terms: ContrastiveTerms,
    same: Sequence[Tensor],
    labelled: Sequence[Tensor],
    estimates: bool = True,
) -> Means:
    """Compare what a debiased loss assumes and estimates with the truth.

    Args:
        terms: terms of a loss.
        same: (A, K) bool per direction, whether a column has the anchor's class.
        labelled: bool per direction, broadcastable to (A, K), whether this is known.
        estimates: whether the loss's N·g is a mass of negatives.
    """
    log_masses, positives = terms.log_negative_mass.double(), terms.positive[:, 0].double()
    parts = []
    for number, logits in enumerate(terms.logits):
        anchors = slice(number * len(logits), (number + 1) * len(logits))
        # float64 can represent e^(±2/t) down to t = 0.01; the cost is negligible compared with the
        # network.
        # a mass of 0 where a column is not a negative
        mass, valid = logits.double().exp(), ~logits.isneginf()
        known = valid & labelled[number]
        alike, other = same[number] & known, known & ~same[number]
        (of_same, same_count), (of_true, true_count) = (
            ((mass * each).sum(1), each.sum(1)) for each in (alike, other)
        )
        ratio, true = (
            of_same / same_count.clamp(min=1) / positives[anchors].exp(),
            of_true / true_count.clamp(min=1),
        )
        estimated = log_masses[anchors].exp() / valid.sum(1).clamp(min=1)
        flags = (same_count > 0, known.any(1) & estimates, true_count > 0)
        values = zip((ratio, estimated, true), flags, strict=True)
        parts.append([each for value, flag in values for each in (value * flag, flag.double())])
    return Means(*(torch.cat(each) for each in zip(*parts, strict=True)))


class RunningMeans(nn.Module):
    """Means over an epoch, accumulated on the device: scalars per step, and values per anchor by
    group.

    Args:
        scalars: names of the S scalars.
        values: names of the V values.
        groups: names of the G groups; a column's name is the value followed by the group.
        device: device used for training.
    """

    def __init__(
        self,
        scalars: Sequence[str],
        values: Sequence[str],
        groups: Sequence[str],
        device: torch.device,
    ):
        super().__init__()
        self._scalars, self._columns = (
            scalars,
            [f"{value} {group}".strip() for group in groups for value in values],
        )
        zeros = functools.partial(torch.zeros, dtype=torch.float64, device=device)
        self.totals, self.steps = nn.Buffer(zeros(len(scalars))), nn.Buffer(zeros(()))
        self.sums, self.counts = (nn.Buffer(zeros(len(groups), len(values))) for _ in range(2))

    def read(self) -> dict[str, float]:
        """Return the means since the last call. NaN if a group had no anchors."""
        values = torch.cat(
            [self.totals / self.steps.clamp(min=1), (self.sums / self.counts).flatten()]
        ).tolist()
        for total in self.buffers():
            total.zero_()
        return dict(zip([*self._scalars, *self._columns], values, strict=True))

    def _add(
        self,
        scalars: Sequence[Tensor],
        members: Tensor,
        values: Sequence[Tensor],
        counted: Sequence[Tensor],
    ) -> None:
        """Add a step of A anchors: S scalars, (G, A) bool members, V values (A,), and V masks (A,)
        of the anchors to count.
        """
        counts, sums = (
            torch.stack([each.double() for each in columns], dim=1) for columns in (counted, values)
        )
        # Matrix products instead of scatter-add, which has no fixed order of additions on a GPU.
        self.sums.add_(members.double() @ (sums * counts))
        self.counts.add_(members.double() @ counts)
        self.totals.add_(torch.stack([value.double() for value in scalars]))
        self.steps.add_(1)


class ViewMonitors(RunningMeans):
    """Monitors for two-view training.

    For every anchor of known class:

    * share at the bound: whether the estimate of the negative mass was replaced by its lower bound;
    * same-class to positive ratio, estimated mean and true mean (:class:`Means`);
    * precision and recall of the negatives marked as false, for objectives that mark some
      (:func:`agreement`).

    Args:
        rare: (C,) bool, whether a class is rare.
        device: device used for training.
        marks: whether the objective marks negatives.
        estimates: whether the objective's N·g is a mass of negatives.
    """

    def __init__(
        self, rare: Tensor, device: torch.device, marks: bool = False, estimates: bool = True
    ):
        super().__init__(
            ("loss",), ("share at bound", *MEANS, *(MASK if marks else ())), GROUPS[:2], device
        )
        self._rare, self._marks, self._estimates = rare.to(device), marks, estimates

    @torch.no_grad()
    def add(self, terms: ContrastiveTerms, labels: Tensor) -> None:
        """Add a step.

        Args:
            terms: terms of the loss for its 2B anchors.
            labels: (B,) classes of the images; below 0 if unknown.
        """
        same, labelled = (labels[:, None] == labels).repeat(2, 2), (labels >= 0).repeat(2)
        truth = means(terms, [same], [labelled], self._estimates)
        rare = self._rare[labels.clamp(min=0)].repeat(2)
        members = torch.stack([labelled & ~rare, labelled & rare])
        values, counted = (
            [terms.at_bound, *truth.values()],
            [torch.ones_like(terms.at_bound), *truth.weights()],
        )
        if self._marks:
            mask = agreement(terms, [same], [labelled])
            values, counted = values + mask.values(), counted + mask.weights()
        self._add([terms.loss], members, values, counted)


class PairMonitors(RunningMeans):
    """Monitors for training on image–sentence pairs.

    Args:
        groups: (S,) class group of each training sentence: 0 common, 1 rare, 2 unknown.
        compares: whether the source knows which negatives are false, and the objective has
            negatives.
        marks: whether the objective marks such negatives.
    """

    def __init__(self, groups: Tensor, compares: bool = False, marks: bool = False):
        scalars = ("loss", "contrastive loss", "masked word loss", "similarity of pairs")
        values = (
            "share at bound",
            "share removed",
            *(MEANS if compares else ()),
            *(MASK if marks else ()),
        )
        super().__init__(scalars, values, ("", *GROUPS), groups.device)
        self._groups = groups

    @torch.no_grad()
    def add(
        self, terms: ObjectiveTerms, masked_loss: Tensor, positive: Tensor, sentences: Tensor
    ) -> None:
        """Add a step.

        Args:
            terms: contrastive loss and the terms of the B pairs.
            masked_loss: masked-word loss, a scalar.
            positive: (B,) similarity of the pairs.
            sentences: (B,) sentence indices of the batch.
        """
        groups, every = self._groups[sentences], torch.ones_like(terms.at_bound)
        members = torch.stack([every.bool(), *(groups == number for number in range(len(GROUPS)))])
        scalars = [
            terms.loss.double() + masked_loss.double(),
            terms.loss,
            masked_loss,
            positive.double().mean(),
        ]
        values, counted = [terms.at_bound, terms.removed], [every, every]
        for kind, sums in ((Means, terms.means), (Agreement, terms.mask)):
            if len(sums):
                found: Any = kind(*sums)
                values, counted = values + found.values(), counted + found.weights()
        self._add(scalars, members, values, counted)

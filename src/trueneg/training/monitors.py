"""Monitors of an objective's effect on anchors, grouped by class frequency; they use labels, and do
not affect the loss.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trueneg.losses.estimator_loss import ContrastiveTerms

GROUPS = ("common", "rare", "unknown")
MEANS = ("same-class to positive ratio", "estimated mean", "true mean")
MASK = ("mask precision", "mask recall")


def marks_negatives(loss: Any) -> bool:
    """Return whether a loss marks individual negatives as false, so that its mask can be compared
    with the truth.
    """
    return loss.estimator.marks or getattr(loss.target_rule, "marks", False)


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
        mask: (4, B) :func:`agreement` of the pairs' anchors with the known matches, summed over
            directions; (0, B) if the objective marks nothing, or nothing is known.
        means: (6, B) :func:`means` of the pairs' anchors, summed over directions; (0, B) if nothing
            is known.
    """

    loss: Tensor
    at_bound: Tensor
    removed: Tensor
    mask: Tensor
    means: Tensor


def agreement(
    terms: ContrastiveTerms, false: Sequence[Tensor], labelled: Sequence[Tensor]
) -> Tensor:
    """Compare the negatives that a loss marks with the known false ones.

    Args:
        terms: terms of a loss that marks negatives.
        false: (A, K) bool per direction, whether a column has the anchor's class.
        labelled: bool per direction, broadcastable to (A, K), whether this is known.

    Returns:
        (4, A): the numbers of negatives in precision and recall of each anchor: marked false ones
        of the marked ones, and of the false ones.
    """
    parts = []
    for number, logits in enumerate(terms.logits):
        valid = ~logits.isneginf() & labelled[number]
        # a mask, not one minus a weight
        if terms.removed and terms.removed[number].dtype == torch.bool:
            marked = terms.removed[number]
        else:
            attracted = terms.targets[number] > 0
            marked = attracted.repeat(
                len(logits) // len(attracted), logits.shape[1] // attracted.shape[1]
            )
        marked = (marked & valid).double()
        truth = (false[number] & valid).double()
        hits = (marked * truth).sum(1)
        parts.append(torch.stack([hits, marked.sum(1), hits, truth.sum(1)]))
    return torch.cat(parts, 1)


def means(
    terms: ContrastiveTerms,
    same: Sequence[Tensor],
    labelled: Sequence[Tensor],
    estimates: bool = True,
) -> Tensor:
    """Compare what a debiased loss assumes and estimates with the truth, for each anchor with
    positive logit p and negative logits u.

    * The mean of e^u over the negatives of the anchor's own class, divided by e^p. A debiased loss
      uses e^p in place of that mean; a ratio below 1 means that it subtracts too much.
    * The objective's own N·g, divided by N.
    * The mean of e^u over the negatives of other known classes, which a debiased loss is meant to
      estimate.

    Args:
        terms: terms of a loss.
        same: (A, K) bool per direction, whether a column has the anchor's class.
        labelled: bool per direction, broadcastable to (A, K), whether this is known.
        estimates: whether the loss's N·g is a mass of negatives.

    Returns:
        (6, A): each value, or 0, followed by 1 if the anchor has it, else 0.
    """
    log_masses = terms.log_negative_mass.double()
    positives = terms.positive[:, 0].double()
    parts = []
    for number, logits in enumerate(terms.logits):
        anchors = slice(number * len(logits), (number + 1) * len(logits))
        # float64 can represent e^(±2/t) down to t = 0.01; the cost is negligible compared with the
        # network.
        mass = logits.double().exp()  # 0 where a column is not a negative
        valid = ~logits.isneginf()
        known = valid & labelled[number]
        of_same, has_same = _mean_over(mass, same[number] & known)
        of_others, has_others = _mean_over(mass, known & ~same[number])
        ratio = of_same / positives[anchors].exp()
        estimated = log_masses[anchors].exp() / valid.sum(1).clamp(min=1)
        has_estimate = (known.any(1) & estimates).double()
        values = ratio * has_same, estimated * has_estimate, of_others * has_others
        flags = has_same, has_estimate, has_others
        parts.append(torch.stack([values[0], flags[0], values[1], flags[1], values[2], flags[2]]))
    return torch.cat(parts, 1)


def _mean_over(mass: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of (A, K) values over the chosen ones of each row, and whether there are
    any.
    """
    count = chosen.sum(1)
    return (mass * chosen).sum(1) / count.clamp(min=1), (count > 0).double()


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
        self._names = [
            *scalars,
            *(f"{value} {group}".strip() for group in groups for value in values),
        ]
        zeros = functools.partial(torch.zeros, dtype=torch.float64, device=device)
        self.totals = nn.Buffer(zeros(len(scalars)))
        self.steps = nn.Buffer(zeros(()))
        self.sums = nn.Buffer(zeros(len(groups), len(values)))
        self.counts = nn.Buffer(zeros(len(groups), len(values)))

    def read(self) -> dict[str, float]:
        """Return the means since the last call. NaN if a group had no anchors."""
        values = torch.cat(
            [self.totals / self.steps.clamp(min=1), (self.sums / self.counts).flatten()]
        ).tolist()
        for total in self.buffers():
            total.zero_()
        return dict(zip(self._names, values, strict=True))

    def _add(self, scalars: Sequence[Tensor], members: Tensor, sums: Sequence[Tensor]) -> None:
        """Add a step of A anchors: S scalars, (G, A) bool members, and parts of the V values.

        A part has two rows for each of its values: sums over several anchors, and their numbers.
        """
        rows = torch.cat([part.double() for part in sums])
        counts = rows[1::2]
        # Matrix products instead of scatter-add, which has no fixed order of additions on a GPU.
        values = rows[::2] / counts.clamp(min=1) * counts
        self.sums.add_(members.double() @ values.T)
        self.counts.add_(members.double() @ counts.T)
        self.totals.add_(torch.stack([value.double() for value in scalars]))
        self.steps.add_(1)


def _for_all(values: Tensor) -> Tensor:
    """Return (2, A): values that every anchor has."""
    return torch.stack([values, torch.ones_like(values)])


class ViewMonitors(RunningMeans):
    """Monitors for two-view training.

    For every anchor of known class:

    * share at the bound: whether the estimate of the negative mass was replaced by its lower bound;
    * same-class to positive ratio, estimated mean and true mean (:func:`means`);
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
        self._rare = rare.to(device)
        self._marks = marks
        self._estimates = estimates

    @torch.no_grad()
    def add(self, terms: ContrastiveTerms, labels: Tensor) -> None:
        """Add a step.

        Args:
            terms: terms of the loss for its 2B anchors.
            labels: (B,) classes of the images; below 0 if unknown.
        """
        same = (labels[:, None] == labels).repeat(2, 2)
        labelled = (labels >= 0).repeat(2)
        sums = [_for_all(terms.at_bound), means(terms, [same], [labelled], self._estimates)]
        if self._marks:
            sums.append(agreement(terms, [same], [labelled]))
        rare = self._rare[labels.clamp(min=0)].repeat(2)
        self._add([terms.loss], torch.stack([labelled & ~rare, labelled & rare]), sums)


class PairMonitors(RunningMeans):
    """Monitors for training on pairs.

    Args:
        groups: (S,) class group of each training text: 0 common, 1 rare, 2 unknown.
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
        self, terms: ObjectiveTerms, masked_loss: Tensor, positive: Tensor, anchors: Tensor
    ) -> None:
        """Add a step.

        Args:
            terms: contrastive loss and the terms of the B pairs.
            masked_loss: masked-word loss, a scalar.
            positive: (B,) similarity of the pairs.
            anchors: (B,) indices of the batch's texts.
        """
        groups = self._groups[anchors]
        every = torch.ones_like(groups, dtype=torch.bool)
        members = torch.stack([every, *(groups == number for number in range(len(GROUPS)))])
        scalars = [
            terms.loss.double() + masked_loss.double(),
            terms.loss,
            masked_loss,
            positive.double().mean(),
        ]
        of_all = [_for_all(terms.at_bound), _for_all(terms.removed)]
        self._add(scalars, members, [*of_all, terms.means, terms.mask])

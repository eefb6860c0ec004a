"""Monitors of an objective's effect on anchors, grouped by class frequency; they use labels, and do not affect the loss."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trueneg.losses.contrastive import ContrastiveTerms

GROUPS = ("common", "rare", "unknown")


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
        counts, sums = (torch.stack([each.double() for each in given], dim=1) for given in (counted, values))
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
    * true mean: the mean of e^u over the negatives of other known classes, which a debiased loss is meant to estimate.

    Args:
        rare: (C,) bool, whether a class is rare.
        device: device used for training.
    """

    def __init__(self, rare: Tensor, device: torch.device):
        values = ("share at bound", "same-class to positive ratio", "estimated mean", "true mean")
        super().__init__(("loss",), values, GROUPS[:2], device)
        self._rare = rare.to(device)

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
        known = (labels >= 0).repeat(2)
        true = known & ~same
        true_count = true.sum(1)
        same_mass = (mass * same).sum(1)
        values = [
            terms.at_bound,
            same_mass / same_count.clamp(min=1) / positive.exp(),
            terms.log_negative_mass.double().exp() / (mass.shape[1] - 2),
            (mass * true).sum(1) / true_count.clamp(min=1),
        ]
        every, rare = torch.ones_like(positive), self._rare[labels.clamp(min=0)].repeat(2)
        members = torch.stack([known & ~rare, known & rare])
        self._add([terms.loss], members, values, [every, same_count > 0, every, true_count > 0])


class PairMonitors(RunningMeans):
    """Monitors for training on image–sentence pairs.

    Args:
        groups: (S,) class group of each training sentence: 0 common, 1 rare, 2 unknown.
    """

    def __init__(self, groups: Tensor):
        scalars = ("loss", "contrastive loss", "masked word loss", "similarity of pairs")
        super().__init__(scalars, ("share at bound", "share removed"), ("", *GROUPS), groups.device)
        self._groups = groups

    @torch.no_grad()
    def add(
        self, loss: Tensor, masked_loss: Tensor, at_bound: Tensor, removed: Tensor, positive: Tensor, sentences: Tensor
    ) -> None:
        """Add a step.

        Args:
            loss: contrastive loss, a scalar.
            masked_loss: masked-word loss, a scalar.
            at_bound: (B,) share of a pair's anchors whose estimate is at its lower bound.
            removed: (B,) share of the negatives of a pair's anchors that the objective removes.
            positive: (B,) similarity of the pairs.
            sentences: (B,) indices of the batch's sentences.
        """
        own, every = self._groups[sentences], torch.ones_like(at_bound)
        members = torch.stack([every.bool(), *(own == number for number in range(len(GROUPS)))])
        scalars = [loss.double() + masked_loss.double(), loss, masked_loss, positive.double().mean()]
        self._add(scalars, members, [at_bound, removed], [every, every])

"""What an objective does to its anchors, by how frequent their class is: measured with labels, never used by the loss."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from trueneg.losses.contrastive import ContrastiveTerms

GROUPS = ("common", "rare", "unknown")
_ONE, _BOUND, _HAS_SAME, _RATIO, _ESTIMATE, _HAS_TRUE, _TRUE = range(7)


class RunningMeans(ABC):
    """Means over an epoch, on the device: of values of each anchor by group, and of scalars of each step.

    Args:
        groups: G, how many groups of anchors.
        values: V, how many values an anchor has.
        scalars: S, how many values a step has.
        device: where the training runs.
    """

    def __init__(self, groups: int, values: int, scalars: int, device: torch.device):
        self._totals = {
            "sums": torch.zeros(groups, values, dtype=torch.float64, device=device),
            "scalars": torch.zeros(scalars, dtype=torch.float64, device=device),
            "steps": torch.zeros((), dtype=torch.int64),
        }

    @abstractmethod
    def add(self, *step: Any) -> None:
        """Add a step."""

    @abstractmethod
    def means(self, sums: Tensor, scalars: list[float]) -> dict[str, float]:
        """A row of what was summed up: (G, V) sums by group, and the means of the steps' scalars."""

    def read(self) -> dict[str, float]:
        """The means since the last reading, the epoch's one synchronisation; NaN where a group had no anchor."""
        sums, scalars, steps = (total.cpu() for total in self._totals.values())
        row = self.means(sums, (scalars / steps.clamp(min=1)).tolist())
        for total in self._totals.values():
            total.zero_()
        return row

    def state_dict(self) -> dict[str, Tensor]:
        """The unfinished sums."""
        return {name: total.clone() for name, total in self._totals.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from :meth:`state_dict`."""
        for name, total in self._totals.items():
            total.copy_(state[name])

    def _add(self, members: Tensor, values: list[Tensor], scalars: list[Tensor]) -> None:
        """Add a step of A anchors: (G, A) bool, V tensors (A,), and S scalars."""
        # By a product, not by scattered additions, whose order on a GPU is not fixed.
        self._totals["sums"] += members.double() @ torch.stack([value.double() for value in values], dim=1)
        self._totals["scalars"] += torch.stack([value.double() for value in scalars])
        self._totals["steps"] += 1


class ViewMonitors(RunningMeans):
    """Monitors of two views.

    For every anchor with positive logit p and negatives' logits u:

    * share at the bound: whether the estimate of the negative mass was replaced by its lower bound;
    * same-class to positive ratio: mean of e^u over the negatives of the anchor's own class, divided by e^p. A debiased loss
      takes e^p for that mean; a ratio below 1 says that it subtracts too much;
    * estimated mean: the objective's own N·g, divided by N;
    * true mean: the mean of e^u over the negatives of other classes, which is what a debiased loss wants to estimate.

    Args:
        rare: (C,) bool, whether a class is rare.
        device: where the training runs.
    """

    def __init__(self, rare: Tensor, device: torch.device):
        super().__init__(2, 7, 1, device)
        self._rare = rare.to(device)

    @torch.no_grad()
    def add(self, terms: ContrastiveTerms, labels: Tensor) -> None:
        """Add a step.

        Args:
            terms: what the loss computed for its 2B anchors.
            labels: (B,) classes of the images.
        """
        # In float64, which holds e^(±2/t) down to t = 0.01; beside the network the few values cost nothing.
        positive, mass = terms.positive[..., 0].double(), terms.negatives.double().exp()
        same = _same_class(labels)
        same_count = same.sum(1)
        true_count = mass.shape[1] - same_count
        same_mass = (mass * same).sum(1)
        values = [
            torch.ones_like(positive),
            terms.at_bound,
            same_count > 0,
            same_mass / same_count.clamp(min=1) / positive.exp(),
            terms.log_negative_mass.double().exp() / mass.shape[1],
            true_count > 0,
            (mass.sum(1) - same_mass) / true_count.clamp(min=1),
        ]
        rare = self._rare[labels].repeat(2)
        self._add(torch.stack([~rare, rare]), values, [terms.loss])

    def means(self, sums: Tensor, scalars: list[float]) -> dict[str, float]:
        row = {"loss": scalars[0]}
        for group, total in zip(GROUPS, sums, strict=False):
            row[f"share at bound {group}"] = _mean(total, _BOUND, _ONE)
            row[f"same-class to positive ratio {group}"] = _mean(total, _RATIO, _HAS_SAME)
            row[f"estimated mean {group}"] = _mean(total, _ESTIMATE, _ONE)
            row[f"true mean {group}"] = _mean(total, _TRUE, _HAS_TRUE)
        return row


class PairMonitors(RunningMeans):
    """Monitors of pairs of an image and a sentence.

    Args:
        groups: (S,) of each training sentence: 0 of a common class, 1 of a rare one, 2 of an unknown one.
    """

    def __init__(self, groups: Tensor):
        super().__init__(len(GROUPS), 2, 3, groups.device)
        self._groups = groups

    @torch.no_grad()
    def add(self, loss: Tensor, masked_loss: Tensor, at_bound: Tensor, positive: Tensor, sentences: Tensor) -> None:
        """Add a step.

        Args:
            loss: of the contrastive objective, a scalar.
            masked_loss: of masked words, a scalar.
            at_bound: (B,) share of a pair's anchors whose estimate is at its lower bound.
            positive: (B,) similarity of the pairs.
            sentences: (B,) of the batch.
        """
        members = self._groups[sentences] == torch.arange(len(GROUPS), device=self._groups.device)[:, None]
        self._add(members, [torch.ones_like(at_bound), at_bound], [loss, masked_loss, positive.double().mean()])

    def means(self, sums: Tensor, scalars: list[float]) -> dict[str, float]:
        loss, masked, positive = scalars
        row = {"loss": loss + masked, "contrastive loss": loss, "masked word loss": masked, "similarity of pairs": positive}
        row["share at bound"] = _mean(sums.sum(0), _BOUND, _ONE)
        return row | {f"share at bound {group}": _mean(own, _BOUND, _ONE) for group, own in zip(GROUPS, sums, strict=True)}


def _same_class(labels: Tensor) -> Tensor:
    """(2B, 2B−2) bool: whether a negative shares the anchor's class, in the order of the loss's negatives."""
    count = len(labels)
    equal = labels[:, None] == labels[None, :]
    others = equal.flatten()[1:].view(count - 1, count + 1)[:, :-1].reshape(count, count - 1)  # without the diagonal
    return others.repeat(2, 2)


def _mean(total: Tensor, value: int, count: int) -> float:
    return float(total[value] / total[count]) if total[count] > 0 else float("nan")

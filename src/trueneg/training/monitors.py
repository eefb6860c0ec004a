"""What an objective does to its anchors, by class group: measured with labels, never used by the loss."""

import torch
from torch import Tensor

from trueneg.losses.contrastive import ContrastiveTerms

GROUPS = ("common", "rare")
_ONE, _BOUND, _HAS_SAME, _RATIO, _ESTIMATE, _HAS_TRUE, _TRUE = range(7)


class Monitors:
    """Running means over an epoch, on the device; reading them is the epoch's one synchronisation.

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
        self._rare = rare.to(device)
        self._sums = torch.zeros(len(GROUPS), 7, dtype=torch.float64, device=device)
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._steps = 0

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
        values = torch.stack(
            [
                torch.ones_like(positive),
                terms.at_bound.double(),
                (same_count > 0).double(),
                same_mass / same_count.clamp(min=1) / positive.exp(),
                terms.log_negative_mass.double().exp() / mass.shape[1],
                (true_count > 0).double(),
                (mass.sum(1) - same_mass) / true_count.clamp(min=1),
            ],
            dim=1,
        )
        rare = self._rare[labels].repeat(2)
        self._sums += torch.stack([~rare, rare]).double() @ values
        self._loss += terms.loss.double()
        self._steps += 1

    def read(self) -> dict[str, float]:
        """The means since the last reading, by monitor and group (NaN where a group had no anchor); begins anew."""
        sums, loss = self._sums.cpu(), float(self._loss) / max(self._steps, 1)
        row = {"loss": loss}
        for group, total in zip(GROUPS, sums, strict=True):
            row[f"share at bound {group}"] = _mean(total, _BOUND, _ONE)
            row[f"same-class to positive ratio {group}"] = _mean(total, _RATIO, _HAS_SAME)
            row[f"estimated mean {group}"] = _mean(total, _ESTIMATE, _ONE)
            row[f"true mean {group}"] = _mean(total, _TRUE, _HAS_TRUE)
        self._sums.zero_()
        self._loss.zero_()
        self._steps = 0
        return row

    def state_dict(self) -> dict[str, Tensor]:
        """The unfinished sums, for a checkpoint within an epoch."""
        return {"sums": self._sums.clone(), "loss": self._loss.clone(), "steps": torch.tensor(self._steps)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from :meth:`state_dict`."""
        self._sums.copy_(state["sums"])
        self._loss.copy_(state["loss"])
        self._steps = int(state["steps"])


def _same_class(labels: Tensor) -> Tensor:
    """(2B, 2B−2) bool: whether a negative shares the anchor's class, in the order of the loss's negatives."""
    count = len(labels)
    equal = labels[:, None] == labels[None, :]
    others = equal.flatten()[1:].view(count - 1, count + 1)[:, :-1].reshape(count, count - 1)  # without the diagonal
    return others.repeat(2, 2)


def _mean(total: Tensor, value: int, count: int) -> float:
    return float(total[value] / total[count]) if total[count] > 0 else float("nan")

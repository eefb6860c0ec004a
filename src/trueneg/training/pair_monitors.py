"""What an image–text objective does to its anchors, by how frequent their sentence's class is."""

import torch
from torch import Tensor

GROUPS = ("common", "rare", "unknown")


class PairMonitors:
    """Running means over an epoch, on the device; reading them is the epoch's one synchronisation.

    Args:
        groups: (S,) of each training sentence: 0 of a common class, 1 of a rare one, 2 of an unknown one.
    """

    def __init__(self, groups: Tensor):
        self._groups = groups
        self._sums = torch.zeros(len(GROUPS), 2, dtype=torch.float64, device=groups.device)  # pairs, at the bound
        self._losses = torch.zeros(3, dtype=torch.float64, device=groups.device)
        self._steps = 0

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
        # By comparison, not by scattered additions, whose order on a GPU is not fixed.
        mine = (self._groups[sentences][None] == torch.arange(len(GROUPS), device=self._groups.device)[:, None]).double()
        self._sums += torch.stack([mine.sum(1), mine @ at_bound.double()], dim=1)
        self._losses += torch.stack([loss.double(), masked_loss.double(), positive.double().mean()])
        self._steps += 1

    def read(self) -> dict[str, float]:
        """The means since the last reading (NaN where a group had no anchor); begins anew."""
        sums, (loss, masked, positive) = self._sums.cpu(), (self._losses.cpu() / max(self._steps, 1)).tolist()
        row = {"loss": loss + masked, "contrastive loss": loss, "masked word loss": masked, "similarity of pairs": positive}
        row["share at bound"] = _share(sums.sum(0))
        row |= {f"share at bound {group}": _share(own) for group, own in zip(GROUPS, sums, strict=True)}
        self._sums.zero_()
        self._losses.zero_()
        self._steps = 0
        return row

    def state_dict(self) -> dict[str, Tensor]:
        """The unfinished sums, for a checkpoint within an epoch."""
        return {"sums": self._sums.clone(), "losses": self._losses.clone(), "steps": torch.tensor(self._steps)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from :meth:`state_dict`."""
        self._sums.copy_(state["sums"])
        self._losses.copy_(state["losses"])
        self._steps = int(state["steps"])


def _share(sums: Tensor) -> float:
    pairs, at_bound = sums.tolist()
    return at_bound / pairs if pairs else float("nan")

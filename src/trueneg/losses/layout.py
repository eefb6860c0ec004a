"""Which row and which column of the logits is what.

This process has B samples, and all processes together have G samples and H further negatives. With
V views, the rows are the A = V·B anchors: the first view of each sample of this process, then the
second. The columns are the first view of all samples in the order of the processes, then the
second, then the further negatives: K = V·(G + H), because H = 0 if there are two views.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Rows and columns of the logits; methods take the indices of some anchors, shape (a,), or None
    for all.

    Attributes:
        count: B.
        samples: G.
        candidates: G + H.
        views: V.
        offset: column of this process's first sample.
        device: device of the logits.

    Example:
        >>> Layout(count=2, samples=4, candidates=4, views=2, offset=2).own_columns(None).tolist()
        [[2, 6], [3, 7], [2, 6], [3, 7]]
    """

    count: int
    samples: int
    candidates: int
    views: int = 1
    offset: int = 0
    device: torch.device | None = None

    @property
    def columns(self) -> int:
        """K."""
        return self.views * self.candidates

    @property
    def all_anchors(self) -> Tensor:
        """(A,) indices of all anchors."""
        return torch.arange(self.views * self.count, device=self.device)

    def own_columns(self, anchors: Tensor | None) -> Tensor:
        """Return (a, V) indices of the columns of each anchor's own sample."""
        sample = (self.all_anchors if anchors is None else anchors).remainder(self.count)
        return sample.unsqueeze(1) + torch.arange(
            self.offset, self.views * self.samples, self.samples, device=self.device
        )

    def hide_own(self, logits: Tensor, anchors: Tensor | None) -> Tensor:
        """Set (a, K) logits to −∞ in place in the columns of each anchor's own sample, where
        estimators give them no gradient.

        Autograd does not see this, which saves it a copy of the logits.
        """
        if anchors is None:  # no indices are needed for diagonals
            blocks = logits.detach().view(self.views, self.count, self.views, self.candidates)
            blocks.diagonal(self.offset, 1, 3).fill_(-math.inf)
        else:
            logits.detach().scatter_(1, self.own_columns(anchors), -math.inf)
        return logits

    def rows(self, values: Tensor, anchors: Tensor | None) -> Tensor:
        """Return each anchor's row of values with one row per anchor or per sample."""
        if anchors is None and len(values) == self.views * self.count:
            return values
        return values[(self.all_anchors if anchors is None else anchors).remainder(len(values))]

    def by_column(self, values: Tensor) -> Tensor:
        """Return (a, K) values; those of a sample hold for all of its views."""
        return values if values.shape[1] == self.columns else values.repeat(1, self.views)

    def weights(self, targets: Tensor, anchors: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the targets of the positives, (a,), and of the columns, (a, K); the views of a
        sample share its target.
        """
        of_anchors = self.rows(targets, anchors)
        own_columns = self.own_columns(anchors)
        of_columns = (self.by_column(of_anchors) / self.views).scatter(1, own_columns, 0)
        return of_anchors.gather(1, own_columns[:, :1])[:, 0], of_columns

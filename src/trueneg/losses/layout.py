"""Which row and which column of the logits is what.

This process has B samples, and all processes together have G samples, H hard negatives and a queue
of Q past keys. With V views, the rows are the A = V·B anchors: the first view of each sample of
this process, then the second, and so on. The K = V·G + H + Q columns are the first view of all
samples in the order of the processes, then the second, and so on, then the hard negatives and the
queue. Facts have one column for each of the S = G + H + Q samples, or for each of the K columns.
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
        hard: H.
        queued: Q.
        views: V.
        offset: column of this process's first sample.
        device: device of the logits.
        dtype: dtype of the logits.

    Example:
        >>> Layout(count=2, samples=4, views=2, offset=2).own_columns(None).tolist()
        [[2, 6], [3, 7], [2, 6], [3, 7]]
    """

    count: int
    samples: int
    hard: int = 0
    queued: int = 0
    views: int = 1
    offset: int = 0
    device: torch.device | None = None
    dtype: torch.dtype = torch.float32

    @property
    def further(self) -> int:
        """H + Q."""
        return self.hard + self.queued

    @property
    def candidates(self) -> int:
        """S."""
        return self.samples + self.further

    @property
    def columns(self) -> int:
        """K."""
        return self.views * self.samples + self.further

    @property
    def anchors(self) -> int:
        """A."""
        return self.views * self.count

    @property
    def all_anchors(self) -> Tensor:
        """(A,) indices of all anchors."""
        return torch.arange(self.anchors, device=self.device)

    def own_columns(self, anchors: Tensor | None) -> Tensor:
        """Return (a, V) indices of the columns of each anchor's own sample."""
        sample = (self.all_anchors if anchors is None else anchors).remainder(self.count)
        return sample.unsqueeze(1) + torch.arange(
            self.offset, self.views * self.samples, self.samples, device=self.device
        )

    def is_own(self, anchors: Tensor | None) -> Tensor:
        """Return (a, K) bool: the columns of each anchor's own sample."""
        own = self.own_columns(anchors)
        columns = torch.zeros(len(own), self.columns, dtype=torch.bool, device=self.device)
        return columns.scatter_(1, own, True)

    def is_hard(self, anchors: Tensor | None, owners: Tensor | None) -> Tensor:
        """Return (a, K) bool: the columns of each anchor's hard negatives.

        Args:
            anchors: indices of anchors.
            owners: the sample of this process to which each of its hard negatives belongs; None:
                all hard negatives are those of each anchor.
        """
        sample = (self.all_anchors if anchors is None else anchors).remainder(self.count)
        first = self.views * self.samples
        is_hard = torch.zeros(len(sample), self.columns, dtype=torch.bool, device=self.device)
        if owners is None:
            is_hard[:, first : first + self.hard] = True
        else:
            first += self.offset // self.count * len(owners)
            is_hard[:, first : first + len(owners)] = owners == sample[:, None]
        return is_hard

    def hide_own(self, logits: Tensor, anchors: Tensor | None) -> Tensor:
        """Set (a, K) logits to −∞ in place in the columns of each anchor's own sample, where
        estimators give them no gradient.

        Autograd does not see this, which saves it a copy of the logits.
        """
        if anchors is None:  # no indices are needed for diagonals
            of_samples = logits.detach()[:, : self.views * self.samples]
            blocks = of_samples.unflatten(1, (self.views, -1)).unflatten(0, (self.views, -1))
            blocks.diagonal(self.offset, 1, 3).fill_(-math.inf)
        else:
            logits.detach().scatter_(1, self.own_columns(anchors), -math.inf)
        return logits

    def rows(self, values: Tensor, anchors: Tensor | None) -> Tensor:
        """Return each anchor's row of values with one row per anchor or per sample."""
        if anchors is None and len(values) == self.anchors:
            return values
        return values[(self.all_anchors if anchors is None else anchors).remainder(len(values))]

    def by_column(self, values: Tensor) -> Tensor:
        """Return (a, K) values; those of a sample hold for all of its views."""
        if values.shape[1] == self.columns:
            return values
        of_samples, of_further = values.split((self.samples, self.further), dim=1)
        return torch.cat((of_samples.repeat(1, self.views), of_further), dim=1)

    def weights(self, targets: Tensor, anchors: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the targets of the positives, (a,), and of the columns, (a, K); the views of a
        sample share its target.
        """
        of_anchors = self.rows(targets, anchors)
        own_columns = self.own_columns(anchors)
        of_columns = self.by_column(of_anchors).scatter(1, own_columns, 0)
        of_columns[:, : self.views * self.samples] /= self.views
        return of_anchors.gather(1, own_columns[:, :1])[:, 0], of_columns

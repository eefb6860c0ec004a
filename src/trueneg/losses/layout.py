"""Which row and which column of the logits is what.

This process has B samples, and all processes together have G samples and H further negatives. With V views, the rows are the
A = V·B anchors: the first view of each sample of this process, then the second. The columns are the first view of all samples in
the order of the processes, then the second, then the further negatives: K = V·(G + H), because H = 0 if there are two views.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Rows and columns of the logits; methods take the indices of some anchors, shape (a,), and return a row for each of them.

    Attributes:
        count: B.
        samples: G.
        candidates: G + H.
        views: V.
        offset: column of this process's first sample.
        device: device of the logits.

    Example:
        >>> Layout(count=2, samples=4, candidates=4, views=2, offset=2).own_columns(torch.arange(4)).tolist()
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

    def own_columns(self, anchors: Tensor) -> Tensor:
        """Return (a, V) indices of the columns of each anchor's own sample."""
        first = torch.arange(self.offset, self.views * self.samples, self.samples, device=self.device)
        return anchors.remainder(self.count)[:, None] + first

    def rows(self, values: Tensor, anchors: Tensor) -> Tensor:
        """Return the anchors' rows of values that have a row for each anchor or for each sample of this process."""
        return values if len(values) == len(anchors) else values[anchors.remainder(len(values))]

    def by_column(self, values: Tensor) -> Tensor:
        """Return (a, K) values; those of a sample hold for all of its views."""
        return values if values.shape[1] == self.columns else values.repeat(1, self.views)

    def weights(self, targets: Tensor, anchors: Tensor, own_columns: Tensor) -> tuple[Tensor, Tensor]:
        """Return the targets of the positives, (a,), and of the columns, (a, K); the views of a sample share its target."""
        of_anchors = self.rows(targets, anchors)
        of_columns = (self.by_column(of_anchors) / self.views).scatter(1, own_columns, 0)
        return of_anchors.gather(1, own_columns[:, :1])[:, 0], of_columns

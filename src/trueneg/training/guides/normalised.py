"""Another guide on a scale whose zero is the mean similarity of different samples."""

from typing import Any

import torch
from torch import Tensor

from trueneg.training.guides.base import Batch, Guide, Rated

KEPT = 0.99  # share of the average that a batch keeps


class NormalisedGuide(Guide):
    r"""Another guide's similarities, normalised, so that one threshold fits any encoder.

    .. math:: s' = \frac{s - o}{1 - o}

    FaNe (2025), where o is a moving average of the mean similarity of different samples, which begins with the first batch's.

    Args:
        guide: the other guide.
    """

    offset: Tensor

    def __init__(self, guide: Guide):
        super().__init__(guide.settings, guide.run)
        self.guide = guide
        self.register_buffer("offset", torch.full((), torch.nan, device=guide.run.device))

    def rate(self, batch: Batch) -> Rated:
        rated = self.guide.rate(batch)
        matrices = rated.negative_similarity if isinstance(rated.negative_similarity, tuple) else (rated.negative_similarity,)
        count = len(batch.rows[self.run.SAMPLE_KEY])
        mean = torch.stack([_mean_of_others(matrix, count) for matrix in matrices]).mean()
        self.offset.copy_(torch.where(self.offset.isnan(), mean, KEPT * self.offset + (1 - KEPT) * mean))

        def normalised(values: Any) -> Any:
            return None if values is None else (values - self.offset) / (1 - self.offset)

        whole = tuple(map(normalised, matrices))
        return Rated(whole if isinstance(rated.negative_similarity, tuple) else whole[0], normalised(rated.positive_similarity))

    def measured(self) -> dict[str, float]:
        return {**self.guide.measured(), "offset of the guide": self.offset.item()}

    def after_update(self) -> None:
        self.guide.after_update()


def _mean_of_others(similarity: Tensor, count: int) -> Tensor:
    """Return the mean similarity of different samples: views of `count` samples, and hard negatives in further columns."""
    rows, columns = (torch.arange(size, device=similarity.device) for size in similarity.shape)
    own = (rows[:, None] % count == columns % count) & (columns < len(rows))
    return similarity.masked_fill(own, 0).sum() / (~own).sum()

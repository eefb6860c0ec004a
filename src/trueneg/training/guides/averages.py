"""Moving averages of each sample's negative mass, as the guide of SogCLR."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trueneg.training.guides.base import Guide, GuideBatch, Rated

if TYPE_CHECKING:
    from trueneg.training.loop import TrainingRun


class AverageGuide(Guide):
    """Log averages of the negative mass, in place of the similarities of the positives.

    There is one average for each training sample and direction; −∞: the sample has not been drawn
    yet. The views of a sample, and several similarities of the same pairs, share it: the new
    average is the mean of theirs, as in the authors' code. If a batch contains a sample twice, the
    larger one counts.
    """

    def __init__(self, settings: Mapping[str, Any], run: "TrainingRun"):
        super().__init__(settings, run)
        size = len(run.directions), run.data.samples
        self.log_averages = nn.Buffer(torch.full(size, -math.inf, device=run.device))
        self._new: list[Tensor] = []

    def loss_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        return settings | {"keep": self._new.append}

    def rate(self, batch: GuideBatch) -> Rated:
        self._samples, _ = batch.samples
        self._new.clear()
        return Rated(positive_similarity=self.log_averages[:, self._samples].flatten())

    def after_update(self) -> None:
        directions = len(self.log_averages)
        each = torch.cat(self._new).view(-1, directions, len(self._samples))
        mean = (each.logsumexp(0) - math.log(len(each))).to(self.log_averages.dtype)
        places = self._samples.expand(directions, -1)
        # The largest, because sums of scattered values have no fixed order on a GPU.
        self.log_averages.scatter_reduce_(1, places, mean, "amax", include_self=False)

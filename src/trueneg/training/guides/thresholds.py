"""The networks being trained, with thresholds learned for each sample, as the guide of GloFND."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from trueneg.losses import LearnedThresholds
from trueneg.training.guides.base import Batch, Guide, Rated


class ThresholdGuide(Guide):
    """Similarities from the networks being trained; a learned threshold of each anchor replaces the positive's similarity.

    There is one threshold for each training image and direction. Before the fraction ``start`` of the run, nothing is learned,
    and the thresholds are infinite.
    """

    def __init__(self, settings: Mapping[str, Any], run: Any):
        super().__init__(settings, run)
        self._run, self._start, self._images = run, settings["start"], len(run.data.images)
        thresholds = LearnedThresholds(len(run.directions) * self._images, settings["share"], settings["threshold_rate"])
        self.thresholds = thresholds.to(run.device)

    def rate(self, batch: Batch) -> Rated:
        rated, samples = batch.rated(), batch.rows["images"]
        if self._run.updates_done < self._start * self._run.updates:
            infinite = rated.negative_similarity.new_full((len(self._run.directions) * len(samples),), math.inf)
            return rated._replace(positive_similarity=infinite)
        thresholds = [
            self.thresholds.update(samples + number * self._images, similarity)
            for number, similarity in enumerate(batch.by_direction(rated.negative_similarity))
        ]
        return rated._replace(positive_similarity=torch.cat(thresholds))

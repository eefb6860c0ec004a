"""The networks being trained, with thresholds learned for each sample, as the guide of GloFND."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from trueneg.losses import LearnedThresholds
from trueneg.training.guides.base import Batch, Guide, Rated


class ThresholdGuide(Guide):
    """Similarities from the networks being trained; a learned threshold of each anchor replaces the positive's similarity.

    There is one threshold for each training sample and direction. Before the fraction ``start`` of the run, nothing is learned,
    and the thresholds are infinite. Hard negatives, in the columns after the batch's samples, are compared with the thresholds,
    but do not count in learning them, because they are not random samples.
    """

    def __init__(self, settings: Mapping[str, Any], run: Any):
        super().__init__(settings, run)
        self._samples = len(getattr(run.data, run.SAMPLE_KEY))
        thresholds = LearnedThresholds(len(run.directions) * self._samples, settings["share"], settings["threshold_rate"])
        self.thresholds = thresholds.to(run.device)

    def rate(self, batch: Batch) -> Rated:
        similarity, samples, directions = batch.rated().negative_similarity, batch.rows[self.run.SAMPLE_KEY], self.run.directions
        if self.run.updates_done < self.settings["start"] * self.run.updates:
            return Rated(similarity, similarity.new_full((len(directions) * len(samples),), math.inf))
        square = similarity[:, : len(similarity)]
        thresholds = [
            self.thresholds.update(samples + place * self._samples, square.mT if direction == "image" else square)
            for place, direction in enumerate(directions)
        ]
        return Rated(similarity, torch.cat(thresholds))

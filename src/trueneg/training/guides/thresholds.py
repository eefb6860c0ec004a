"""The networks being trained, with thresholds learned for each sample, as the guides of GloFND."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trueneg.losses import LearnedThresholds
from trueneg.training.guides.base import Guide, GuideBatch, Rated

if TYPE_CHECKING:
    from trueneg.training.loop import TrainingRun


class ThresholdGuide(Guide):
    """Similarities from the networks being trained; a learned threshold of each anchor replaces the
    positive's similarity.

    There is one threshold for each training sample and direction. Before the fraction ``start`` of
    the run, nothing is learned, and the thresholds are infinite. Hard negatives, in the columns
    after the batch's samples, are compared with the thresholds, but do not count in learning them,
    because they are not random samples.
    """

    def __init__(self, settings: Mapping[str, Any], run: "TrainingRun"):
        super().__init__(settings, run)
        self._samples = run.data.samples
        thresholds = LearnedThresholds(
            len(run.directions) * self._samples, settings["share"], settings["threshold_rate"]
        )
        self.thresholds = thresholds.to(run.device)

    def rate(self, batch: GuideBatch) -> Rated:
        return Rated(*self.similarity_and_thresholds(batch))

    def similarity_and_thresholds(self, batch: GuideBatch) -> tuple[Tensor, Tensor]:
        """Learn from a batch; return its similarities and, for all anchors by direction, their
        thresholds.
        """
        similarity: Any = batch.rated().negative_similarity
        samples, _ = batch.samples
        directions = self.run.directions
        if self.run.updates_done < self.settings["start"] * self.run.updates:
            return similarity, similarity.new_full((len(directions) * len(samples),), math.inf)
        square = similarity[:, : len(similarity)]
        thresholds = [
            self.thresholds.update(
                samples + place * self._samples, square.mT if direction == "image" else square
            )
            for place, direction in enumerate(directions)
        ]
        return similarity, torch.cat(thresholds)


class RelativeThresholdGuide(Guide):
    """Similarities minus the anchor's learned threshold."""

    def __init__(self, settings: Mapping[str, Any], run: "TrainingRun"):
        super().__init__(settings, run)
        self.learned = ThresholdGuide(settings, run)

    def rate(self, batch: GuideBatch) -> Rated:
        similarity, thresholds = self.learned.similarity_and_thresholds(batch)
        samples, _ = batch.samples
        # Above every cosine, but finite: minus an infinite threshold, all similarities would rank
        # the same.
        each = thresholds.clamp(max=2).view(-1, len(samples))
        relative = {}
        for direction, of_anchors in zip(self.run.directions, each, strict=True):
            rows = similarity[:, : len(similarity)].mT if direction == "image" else similarity
            relative[direction] = rows - of_anchors.repeat(len(rows) // len(samples))[:, None]
        image = relative.pop("image", None)
        (other,) = relative.values() or (similarity,)
        return Rated(other if image is None else (other, image))

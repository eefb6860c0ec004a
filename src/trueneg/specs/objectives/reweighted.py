"""Reweight negatives: the more similar, the lower the weight."""

from typing import Literal

from trueneg.specs.objectives.base import SimilarityObjective
from trueneg.specs.settings import NonNegative, Sweepable


class ReweightedSettings(SimilarityObjective):
    """Reweights negatives: the more similar, the lower the weight."""

    name: Literal["reweight"]
    exponent: Sweepable[NonNegative] = 1.0
    """exponent of the weight 1 − max(0, similarity); 0: all weights 1"""

"""Resample negatives, favouring less similar ones."""

from typing import Literal

from trueneg.specs.objectives.base import SimilarityObjective
from trueneg.specs.settings import Count, Sweepable


class ResampledSettings(SimilarityObjective):
    """Resamples negatives, favouring less similar ones."""

    name: Literal["resample"]
    size: Sweepable[Count] = 32
    """negatives drawn per anchor"""

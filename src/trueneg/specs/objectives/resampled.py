"""Resample negatives, favouring less similar ones."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import SimilarityObjective
from trueneg.specs.settings import Count, Sweepable


class ResampledSettings(SimilarityObjective):
    """Resamples negatives, favouring less similar ones."""

    name: Literal["resample"]
    size: Sweepable[Count] = Field(32, description="negatives drawn per anchor")

"""Negatives are drawn again, the less alike the likelier."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import KnownSimilarity
from trueneg.specs.settings import Count, Sweepable


class Resampled(KnownSimilarity):
    """Negatives are drawn again, the less alike the likelier."""

    MODULES = ("trueneg.losses.estimators.resampled",)

    name: Literal["resample"]
    size: Sweepable[Count] = Field(32, description="negatives drawn for an anchor")


PAIRS = Resampled

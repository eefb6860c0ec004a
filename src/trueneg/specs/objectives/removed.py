"""Negatives that are too alike are left out."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import KnownSimilarity
from trueneg.specs.settings import Real, Sweepable


class Removed(KnownSimilarity):
    """Negatives that are too alike are left out."""

    MODULES = ("trueneg.losses.estimators.removed",)

    name: Literal["remove"]
    threshold: Sweepable[Real] = Field(0.5, description="θ, the largest similarity that stays")


PAIRS = Removed

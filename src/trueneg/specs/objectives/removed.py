"""Remove negatives that are too similar."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import KnownSimilarity
from trueneg.specs.settings import Real, Sweepable


class Removed(KnownSimilarity):
    """Removes negatives that are too similar."""

    name: Literal["remove"]
    threshold: Sweepable[Real] = Field(0.5, description="θ: negatives with a greater similarity are removed")


PAIRS = Removed

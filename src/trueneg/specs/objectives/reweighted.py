"""Reweight negatives: the more similar, the lower the weight."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import KnownSimilarity
from trueneg.specs.settings import Positive, Sweepable


class Reweighted(KnownSimilarity):
    """Reweights negatives: the more similar, the lower the weight."""

    name: Literal["reweight"]
    exponent: Sweepable[Positive] = Field(1.0, description="exponent of the weight 1 − similarity")


PAIRS = Reweighted

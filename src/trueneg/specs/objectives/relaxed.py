"""ReCo: negatives need only be orthogonal."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import Pairs
from trueneg.specs.settings import NonNegative, Sweepable


class Relaxed(Pairs):
    """ReCo: penalises non-negative similarities, but not negative ones."""

    MODULES = ("trueneg.losses.relaxed",)

    name: Literal["reco"]
    negative_weight: Sweepable[NonNegative] = Field(0.6, description="λ: weight of the negatives")


PAIRS = Relaxed

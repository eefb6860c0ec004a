"""ReCo and OC: drive negatives towards orthogonality."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import Pairs
from trueneg.specs.settings import NonNegative, Sweepable


class Relaxed(Pairs):
    """ReCo penalises only positive similarities of negatives; OC drives every similarity to zero."""

    MODULES = ("trueneg.losses.relaxed",)

    name: Literal["reco", "oc"]
    negative_weight: Sweepable[NonNegative] = Field(0.6, description="λ: weight of the negatives")


PAIRS = Relaxed

"""ReCo and OC: drive negatives towards orthogonality."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import PairLoss
from trueneg.specs.settings import NonNegative, Sweepable


class Relaxed(PairLoss):
    """ReCo penalises negatives only if their similarity is positive; OC drives every negative's similarity to zero."""

    IMPLEMENTED_IN = ("losses/relaxed.py",)
    NEEDS_POOLED = True

    name: Literal["reco", "oc"]
    negative_weight: Sweepable[NonNegative] = Field(0.6, description="λ: weight of the negatives")

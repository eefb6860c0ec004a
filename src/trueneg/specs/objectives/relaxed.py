"""ReCo and OC: drive negatives towards orthogonality."""

from typing import Annotated, Literal

from pydantic import Field

from trueneg.specs.objectives.base import PairLoss
from trueneg.specs.settings import NonNegative, Real, Sweepable


class Orthogonalising(PairLoss):
    """Settings shared by ReCo and OC."""

    NEEDS_POOLED = True
    SCALED = False
    SEVERAL_POSITIVES = False

    negative_weight: Sweepable[NonNegative] = 0.6
    """λ: weight of the negatives"""


class OrthogonalityConstraint(Orthogonalising):
    """Drives every negative's similarity to zero (OC)."""

    name: Literal["oc"]


class Relaxed(Orthogonalising):
    """Penalises negatives only if their similarity is positive or, in general, above the margin
    (ReCo).
    """

    name: Literal["reco"]
    margin: Sweepable[Annotated[Real, Field(ge=-1, lt=1)]] = 0.0
    """m: largest cosine without a penalty"""

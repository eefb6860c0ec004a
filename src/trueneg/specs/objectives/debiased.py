"""DCL: subtract the expected share of false negatives."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import (
    IMAGE_ETA,
    ImageProbability,
    ProbabilityObjective,
    TwoViewObjective,
)
from trueneg.specs.settings import Boolean, Sweepable


class TwoViewDebiased(TwoViewObjective):
    """DCL: subtracts the expected share of false negatives."""

    SUBTRACTS = True

    name: Literal["dcl"]
    class_probability: Sweepable[ImageProbability] = Field(description=IMAGE_ETA)


class PairDebiased(ProbabilityObjective):
    """DCL on pairs; gradients to the logit scale may flow through the bound."""

    SUBTRACTS = True

    name: Literal["dcl"]
    bound_gradient: Boolean = False
    """let gradients reach the logit scale through the bound"""

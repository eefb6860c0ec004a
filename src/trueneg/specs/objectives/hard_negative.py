"""HCL: like DCL, with more weight on near negatives."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import (
    BETA,
    IMAGE_ETA,
    ImageProbability,
    ProbabilityObjective,
    TwoViewObjective,
)
from trueneg.specs.schedules import Linear, Scheduled, WarmStart
from trueneg.specs.settings import Boolean, NonNegative, Sweepable


class TwoViewHardNegative(TwoViewObjective):
    """HCL: like DCL, with more weight on near negatives; class_probability 0 gives hardness
    weighting without debiasing.
    """

    SUBTRACTS = True

    name: Literal["hcl"]
    class_probability: Sweepable[ImageProbability] = Field(description=IMAGE_ETA)
    beta: Scheduled[NonNegative, WarmStart | Linear] = Field(
        1.0, description=f"{BETA}; may be scheduled"
    )


class PairHardNegative(ProbabilityObjective):
    """HCL on pairs; gradients to the logit scale may flow through the bound."""

    SUBTRACTS = True

    name: Literal["hcl"]
    beta: Sweepable[NonNegative] = Field(1.0, description=BETA)
    bound_gradient: Boolean = False
    """let gradients reach the logit scale through the bound"""

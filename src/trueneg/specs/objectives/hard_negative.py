"""HCL: like DCL, with more weight on near negatives."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import BETA, Objective
from trueneg.specs.settings import Boolean, NonNegative, Probability, Sweepable


class HardNegative(Objective):
    """HCL: like DCL, with more weight on near negatives; class_probability 0 gives hardness weighting without debiasing."""

    name: Literal["hcl"]
    class_probability: Sweepable[Probability]
    beta: Sweepable[NonNegative] = Field(1.0, description=BETA)


class HardNegativePairs(HardNegative):
    """HCL on pairs; gradients to the logit scale may flow through the bound."""

    bound_gradient: Boolean = Field(False, description="let gradients reach the logit scale through the bound")


TWO_VIEWS = HardNegative
PAIRS = HardNegativePairs

"""DCL: subtract the expected share of false negatives."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import Objective
from trueneg.specs.settings import Boolean, Probability, Sweepable


class Debiased(Objective):
    """DCL: subtracts the expected share of false negatives."""

    name: Literal["dcl"]
    class_probability: Sweepable[Probability]


class DebiasedPairs(Debiased):
    """DCL on pairs; gradients to the logit scale may flow through the bound."""

    bound_gradient: Boolean = Field(False, description="let gradients reach the logit scale through the bound")


TWO_VIEWS = Debiased
PAIRS = DebiasedPairs

"""DCL: the expected share of false negatives is subtracted."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import Objective
from trueneg.specs.settings import Boolean, Probability, Sweepable


class Debiased(Objective):
    """DCL: the expected share of false negatives is subtracted."""

    MODULES = ("trueneg.losses.estimators.debiased",)

    name: Literal["dcl"]
    class_probability: Sweepable[Probability]


class DebiasedPairs(Debiased):
    """DCL on pairs, whose bound may carry gradient to the logit scale."""

    bound_gradient: Boolean = Field(False, description="let the bound carry gradient to the logit scale")
    smooth_bound: Boolean = Field(False, description="experimental: add bound and estimate in place of taking the larger")


TWO_VIEWS = Debiased
PAIRS = DebiasedPairs

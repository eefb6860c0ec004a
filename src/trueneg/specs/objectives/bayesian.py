"""BCL: weight each negative by the probability that it is a true negative."""

from typing import Literal

from pydantic import Field, model_validator

from trueneg.specs.objectives.base import Linear, Location, Objective, WarmStart
from trueneg.specs.settings import NonNegative, Probability, Sweepable


class Bayesian(Objective):
    """BCL: weights negatives by how likely they are to be true negatives, and by their hardness."""

    MODULES = ("trueneg.losses.estimators.bayesian",)

    name: Literal["bcl"]
    class_probability: Sweepable[Probability]
    alpha: Sweepable[Location] = Field(0.7, description="α, how often a true negative is farther than a false one")
    beta: Sweepable[NonNegative] = Field(1.0, description="β ≥ 0, how much more near negatives weigh")
    form: Sweepable[Literal["paper", "released", "consistent"]] = Field("paper", description="which weights: see docs/losses.md")

    @model_validator(mode="after")
    def _released_form_mixes(self):
        released = "released" in (self.form if isinstance(self.form, list) else [self.form])
        betas = self.beta if isinstance(self.beta, list) else [self.beta]
        if released and not all(0.5 <= value <= 1 for beta in betas for value in _reached(beta)):
            raise ValueError(".beta leaves the range from 0.5 to 1; with form: released it mixes two densities")
        return self


def _reached(value: float | WarmStart | Linear) -> tuple[float, ...]:
    """Return the extreme values of a number or a schedule."""
    if isinstance(value, WarmStart):
        return value.before, value.after
    return (value.start, value.end) if isinstance(value, Linear) else (value,)


class BayesianPairs(Bayesian):
    """BCL on pairs; the consistent form is the default."""

    form: Sweepable[Literal["paper", "released", "consistent"]] = Field(
        "consistent", description="which weights: see docs/losses.md"
    )


TWO_VIEWS = Bayesian
PAIRS = BayesianPairs

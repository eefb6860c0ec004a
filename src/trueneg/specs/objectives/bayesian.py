"""BCL: weight each negative by the probability that it is a true negative."""

from typing import Literal

from pydantic import Field, model_validator

from trueneg.specs.objectives.base import ALPHA, BETA, Linear, Location, Objective, WarmStart
from trueneg.specs.settings import NonNegative, Probability, Sweepable, values_of

Form = Sweepable[Literal["paper", "released", "consistent"]]
FORM = "variant of the weights; see docs/losses.md"


class Bayesian(Objective):
    """BCL: weights negatives by how likely they are to be true negatives, and by their hardness."""

    name: Literal["bcl"]
    class_probability: Sweepable[Probability]
    alpha: Sweepable[Location] = Field(0.7, description=ALPHA)
    beta: Sweepable[NonNegative] = Field(1.0, description=BETA)
    form: Form = Field("paper", description=FORM)

    @model_validator(mode="after")
    def _released_form_mixes(self):
        reached = [extreme for beta in values_of(self.beta) for extreme in _extremes(beta)]
        if "released" in values_of(self.form) and not (min(reached) >= 0.5 and max(reached) <= 1):
            raise ValueError(".beta must be in [0.5, 1] for the released form, where it mixes two densities")
        return self


def _extremes(value: float | WarmStart | Linear) -> tuple[float, ...]:
    """Return the extreme values of a number or a schedule."""
    if isinstance(value, WarmStart):
        return value.before, value.after
    return (value.start, value.end) if isinstance(value, Linear) else (value,)


class BayesianPairs(Bayesian):
    """BCL on pairs; the consistent form is the default."""

    form: Form = Field("consistent", description=FORM)


TWO_VIEWS = Bayesian
PAIRS = BayesianPairs

"""BCL: weight each negative by the probability that it is a true negative."""

from typing import Annotated, Literal

from pydantic import Field

from trueneg.specs.objectives.base import (
    BETA,
    IMAGE_ETA,
    EstimatorObjective,
    ImageProbability,
    ProbabilityObjective,
    TwoViewObjective,
)
from trueneg.specs.schedules import AdjustedSchedule, Linear, Scheduled, WarmStart
from trueneg.specs.settings import NonNegative, Real, Sweepable, values_of

Location = Annotated[Real, Field(ge=0.5, le=1)]
ALPHA = (
    "α: share of the true negatives that are the farther of two draws of the base (0.5: the encoder"
    " tells nothing; see docs/theory.md)"
)
Form = Sweepable[Literal["paper", "released", "consistent", "code"]]
FORM = "variant of the weights; see docs/losses.md"


class BayesianSettings(EstimatorObjective):
    """Settings of BCL in every kind of study."""

    name: Literal["bcl"]

    def check_combination(self):
        super().check_combination()
        reached = [extreme for beta in values_of(self.beta) for extreme in _extremes(beta)]
        forms = {"released", "code"} & set(values_of(self.form))
        if forms and not (min(reached) >= 0.5 and max(reached) <= 1):
            raise ValueError(
                f".beta must be in [0.5, 1] for the {min(forms)} form, where it mixes two densities"
            )


def _extremes(value: float | WarmStart | Linear) -> tuple[float, ...]:
    """Return the extreme values of a number or a schedule."""
    if isinstance(value, WarmStart):
        return value.before, value.after
    return (value.start, value.end) if isinstance(value, Linear) else (value,)


class TwoViewBayesian(BayesianSettings, TwoViewObjective):
    """BCL: weights negatives by how likely they are to be true negatives, and by their hardness."""

    class_probability: Sweepable[ImageProbability] = Field(description=IMAGE_ETA)
    alpha: Scheduled[Location, WarmStart | Linear | AdjustedSchedule] = Field(
        0.7, description=f"{ALPHA}; may be scheduled or measured"
    )
    beta: Scheduled[NonNegative, WarmStart | Linear] = Field(
        1.0, description=f"{BETA}; may be scheduled"
    )
    form: Form = Field("paper", description=FORM)


class PairBayesian(BayesianSettings, ProbabilityObjective):
    """BCL on pairs; the consistent form is the default."""

    alpha: Sweepable[Location] = Field(0.7, description=ALPHA)
    beta: Sweepable[NonNegative] = Field(1.0, description=BETA)
    form: Form = Field("consistent", description=FORM)

"""SigLIP: each pair is classified on its own."""

import math
from typing import ClassVar, Literal

from trueneg.specs.objectives.base import EstimatorObjective, PairObjective, TwoViewObjective
from trueneg.specs.sections import Section
from trueneg.specs.settings import Boolean, Real, Sweepable, values_of
from trueneg.specs.temperature import temperature_of


class SigmoidSettings(EstimatorObjective):
    """Settings of the sigmoid loss in every kind of study."""

    SEVERAL_POSITIVES: ClassVar[bool] = False  # has its own: ``positives``

    name: Literal["sigmoid"]
    bias: Sweepable[Real] = -10.0
    """b at the start, added to every logit; about −log N fits small batches"""
    learned_bias: Boolean = True
    """train b with the networks"""
    positives: Sweepable[Literal["own", "labels"]] = "own"
    """own: the anchor's positive; labels: also the samples of its class"""

    def needs(self) -> list[tuple[str, str]]:
        return [(".positives", "known matches")] * (
            "labels" in values_of(self.positives)
        ) + super().needs()

    def check_combination(self):
        if self.targets is not None or self.decoupled:
            raise ValueError(" is not a softmax; remove targets and decoupled")
        super().check_combination()

    @classmethod
    def warnings(cls, settings: Section, negatives: int) -> list[str]:
        prior = -math.log(negatives)
        bias = settings["objective"]["bias"]
        scale = temperature_of(settings).logit_scale
        # Zhai et al. (2023), section 3.2: start with γ = −b = 10, near the prior log-odds −log N of
        # their large batches.
        start = f"starts like a softmax: at logit scale {scale:.3g} and bias {bias:.3g}"
        cases = [
            (
                scale < -bias,
                (
                    "even a cosine of 1 is rated negative; raise the scale (1 / temperature) to"
                    f" {-bias:.3g}, or bias"
                ),
            ),
            (
                bias > prior,
                (
                    f"{negatives:,} negatives of cosine 0 count as more than one positive; lower"
                    f" bias to {prior:.2g}"
                ),
            ),
        ]
        return [f"{start}, {case}" for applies, case in cases if applies]


class TwoViewSigmoid(SigmoidSettings, TwoViewObjective):
    """Classifies each pair of views on its own, with one or several positives (SigLIP, FaNe)."""


class PairSigmoid(SigmoidSettings, PairObjective):
    """Classifies each pair on its own, with one or several positives (SigLIP, FaNe)."""

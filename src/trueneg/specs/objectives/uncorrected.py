"""CL: no correction."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import Objective, SentenceProbability
from trueneg.specs.settings import Sweepable


class Uncorrected(Objective):
    """CL: InfoNCE / SimCLR, no correction."""

    name: Literal["cl"]


class UncorrectedPairs(Uncorrected):
    """CL on pairs, with an optional control that drops the gradients of some anchors."""

    switched_off_by: Sweepable[SentenceProbability] | None = Field(
        None, description="control: anchors that DCL with this η would clamp get no gradient; the others are uncorrected"
    )


TWO_VIEWS = Uncorrected
PAIRS = UncorrectedPairs

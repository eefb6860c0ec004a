"""CL: no correction."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from trueneg.specs.objectives.base import Objective, SentenceProbability
from trueneg.specs.objectives.debiased import Debiased
from trueneg.specs.settings import Sweepable


class Uncorrected(Objective):
    """CL: InfoNCE / SimCLR, no correction."""

    name: Literal["cl"]


class UncorrectedPairs(Uncorrected):
    """CL on pairs, with an optional control that drops the gradients of some anchors."""

    switched_off_by: Sweepable[SentenceProbability] | None = Field(
        None, description="control: anchors that DCL with this η would clamp get no gradient; the others are uncorrected"
    )

    @classmethod
    def modules(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the modules of the objective, plus DCL's if the control needs them."""
        own = super().modules(values)
        return own if values.get("switched_off_by") is None else (*own, *Debiased.modules({}))


TWO_VIEWS = Uncorrected
PAIRS = UncorrectedPairs

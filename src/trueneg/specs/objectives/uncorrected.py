"""CL: no correction."""

from typing import Literal

from trueneg.specs.objectives.base import PairObjective, SentenceProbability, TwoViewObjective
from trueneg.specs.settings import Sweepable


class TwoViewUncorrected(TwoViewObjective):
    """CL: InfoNCE / SimCLR, no correction."""

    name: Literal["cl"]


class PairUncorrected(PairObjective):
    """CL on pairs, with an optional control that drops the gradients of some anchors."""

    name: Literal["cl"]
    switched_off_by: Sweepable[SentenceProbability] | None = None
    """control: anchors that DCL with this η would clamp get no gradient; the
    others are uncorrected
    """

    def check_combination(self):
        if self.switched_off_by is not None and (self.targets is not None or self.decoupled):
            raise ValueError(" computes its own loss; remove targets and decoupled")
        super().check_combination()

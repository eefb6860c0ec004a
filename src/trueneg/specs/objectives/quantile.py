"""Remove the top share of an anchor's negatives."""

from typing import Literal

from trueneg.specs.objectives.base import MaskSettings, PairMask, TwoViewObjective
from trueneg.specs.settings import Share, Sweepable


class QuantileSettings(MaskSettings):
    """Settings of the removal of the top share in every kind of study."""

    name: Literal["quantile"]
    share: Sweepable[Share]
    """share of the negatives to remove"""


class TwoViewQuantile(QuantileSettings, TwoViewObjective):
    """Removes the share of an image's negatives with the largest logits (the control `fnd` of
    GloFND).
    """


class PairQuantile(QuantileSettings, PairMask):
    """Removes the share of an anchor's negatives with the largest logits (the control `fnd` of
    GloFND).
    """

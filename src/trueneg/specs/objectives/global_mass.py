"""SogCLR: a moving average of each anchor's negative mass."""

from typing import Literal

from trueneg.specs.objectives.base import EstimatorObjective, PairCorrection, TwoViewObjective
from trueneg.specs.settings import Fraction, Sweepable


class GlobalMassSettings(EstimatorObjective):
    """Settings of SogCLR in every kind of study."""

    # with fewer, most gradients are CL's, because a sample starts with the batch's own mass
    DRAWS = 5

    name: Literal["global"]
    rate: Sweepable[Fraction] = 0.9
    """γ: weight of the batch in the averages; 1: CL"""


class TwoViewGlobalMass(GlobalMassSettings, TwoViewObjective):
    """Divides gradients by a moving average of each image's negative mass, as if it had all
    negatives (SogCLR).
    """


class PairGlobalMass(GlobalMassSettings, PairCorrection):
    """Divides gradients by a moving average of each sample's negative mass, as if it had all
    negatives (SogCLR).
    """

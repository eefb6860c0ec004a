"""ADNCE: give the most weight to negatives of moderate similarity."""

from typing import Literal

from trueneg.specs.objectives.base import EstimatorObjective, PairCorrection, TwoViewObjective
from trueneg.specs.settings import Boolean, Positive, Real, Sweepable


class AdjustedSettings(EstimatorObjective):
    """Settings of ADNCE in every kind of study."""

    name: Literal["adnce"]
    mu: Sweepable[Real] = 0.7
    """μ: cosine with the largest weight"""
    sigma: Sweepable[Positive] = 0.5
    """σ: width of the weights, in units of the cosine"""
    shuffled: Boolean = False
    """control: permute each anchor's weights over its negatives"""


class TwoViewAdjusted(AdjustedSettings, TwoViewObjective):
    """Weights each negative by a normal density of its cosine (ADNCE)."""


class PairAdjusted(AdjustedSettings, PairCorrection):
    """Weights each negative by a normal density of its cosine (ADNCE)."""

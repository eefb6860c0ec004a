"""Estimators of the true-negative mass N·g, the part of the denominator due to true negatives; one module each."""

from trueneg.losses.estimators.bayesian import Bayesian
from trueneg.losses.estimators.debiased import Debiased
from trueneg.losses.estimators.guided import Guided
from trueneg.losses.estimators.hard_negative import HardNegative
from trueneg.losses.estimators.oracle import Oracle
from trueneg.losses.estimators.quantile import Quantile
from trueneg.losses.estimators.removed import Removed
from trueneg.losses.estimators.resampled import Resampled
from trueneg.losses.estimators.reweighted import Reweighted
from trueneg.losses.estimators.uncorrected import Uncorrected

__all__ = [
    "Bayesian",
    "Debiased",
    "Guided",
    "HardNegative",
    "Oracle",
    "Quantile",
    "Removed",
    "Resampled",
    "Reweighted",
    "Uncorrected",
]

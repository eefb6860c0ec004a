"""Contrastive losses that correct for false negatives; torch is the only dependency."""

from trueneg.losses.adapters import OpenClipLoss
from trueneg.losses.base import Estimator, NegativeMass
from trueneg.losses.build import build
from trueneg.losses.contrastive import ContrastiveLoss
from trueneg.losses.cross_modal import CrossModalLoss, LogitScale
from trueneg.losses.estimator_loss import ContrastiveTerms
from trueneg.losses.estimators.adnce import AdjustedInfoNCE
from trueneg.losses.estimators.bayesian import Bayesian
from trueneg.losses.estimators.debiased import Debiased
from trueneg.losses.estimators.guided import Guided
from trueneg.losses.estimators.hard_negative import HardNegative
from trueneg.losses.estimators.learned_thresholds import LearnedThresholds
from trueneg.losses.estimators.oracle import Oracle
from trueneg.losses.estimators.quantile import Quantile
from trueneg.losses.estimators.removed import Removed
from trueneg.losses.estimators.resampled import Resampled
from trueneg.losses.estimators.reweighted import Reweighted
from trueneg.losses.estimators.sigmoid import Sigmoid
from trueneg.losses.estimators.uncorrected import Uncorrected
from trueneg.losses.relaxed import RelaxedContrastiveLoss

__all__ = [
    "AdjustedInfoNCE",
    "Bayesian",
    "ContrastiveLoss",
    "ContrastiveTerms",
    "CrossModalLoss",
    "Debiased",
    "Estimator",
    "Guided",
    "HardNegative",
    "LearnedThresholds",
    "LogitScale",
    "NegativeMass",
    "OpenClipLoss",
    "Oracle",
    "Quantile",
    "RelaxedContrastiveLoss",
    "Removed",
    "Resampled",
    "Reweighted",
    "Sigmoid",
    "Uncorrected",
    "build",
]

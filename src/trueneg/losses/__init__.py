"""Contrastive losses that correct for false negatives; torch is the only dependency."""

from trueneg.losses.adapters import OpenClipLoss
from trueneg.losses.base import Estimator, NegativeMass
from trueneg.losses.build import build
from trueneg.losses.contrastive import ContrastiveLoss
from trueneg.losses.cross_modal import CrossModalLoss, LogitScale, SymmetricInfoNCE
from trueneg.losses.estimators import (
    Bayesian,
    Debiased,
    Guided,
    HardNegative,
    Oracle,
    Quantile,
    Removed,
    Resampled,
    Reweighted,
    Uncorrected,
)
from trueneg.losses.estimators.learned_thresholds import LearnedThresholds
from trueneg.losses.relaxed import RelaxedContrastiveLoss
from trueneg.losses.terms import ContrastiveTerms

__all__ = [
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
    "SymmetricInfoNCE",
    "Uncorrected",
    "build",
]

"""Contrastive losses that correct for false negatives; torch is all that they need."""

from trueneg.losses.adapters import OpenClipLoss
from trueneg.losses.bayesian import Bayesian
from trueneg.losses.catalogue import build
from trueneg.losses.contrastive import ContrastiveLoss
from trueneg.losses.cross_modal import CrossModalLoss, LogitScale, SymmetricInfoNCE
from trueneg.losses.estimators import Debiased, Estimator, HardNegative, NegativeMass, Uncorrected
from trueneg.losses.explicit import Oracle, Removed, Resampled, Reweighted
from trueneg.losses.relaxed import RelaxedContrastiveLoss
from trueneg.losses.terms import ContrastiveTerms

__all__ = [
    "Bayesian",
    "ContrastiveLoss",
    "ContrastiveTerms",
    "CrossModalLoss",
    "Debiased",
    "Estimator",
    "HardNegative",
    "LogitScale",
    "NegativeMass",
    "OpenClipLoss",
    "Oracle",
    "RelaxedContrastiveLoss",
    "Removed",
    "Resampled",
    "Reweighted",
    "SymmetricInfoNCE",
    "Uncorrected",
    "build",
]

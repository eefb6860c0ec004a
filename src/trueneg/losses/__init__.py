"""Contrastive losses that correct for false negatives; torch is all that they need."""

from trueneg.losses.catalogue import build
from trueneg.losses.contrastive import ContrastiveLoss, ContrastiveTerms
from trueneg.losses.estimators import Debiased, Estimator, Oracle, Uncorrected

__all__ = ["ContrastiveLoss", "ContrastiveTerms", "Debiased", "Estimator", "Oracle", "Uncorrected", "build"]

"""Contrastive losses that correct for false negatives; torch is the only dependency."""

from trueneg.losses.adapters import OpenClipLoss
from trueneg.losses.anchors import Anchors, NegativeMass
from trueneg.losses.base import AnchorCriterion, Estimator
from trueneg.losses.build import build
from trueneg.losses.contrastive import ContrastiveLoss, SupConLoss
from trueneg.losses.cross_modal import CrossModalLoss, LogitScale
from trueneg.losses.estimator_loss import ContrastiveTerms
from trueneg.losses.estimators.adnce import AdjustedInfoNCE
from trueneg.losses.estimators.bayesian import Bayesian
from trueneg.losses.estimators.debiased import Debiased
from trueneg.losses.estimators.global_mass import GlobalMass
from trueneg.losses.estimators.guided import Guided
from trueneg.losses.estimators.hard_negative import HardNegative
from trueneg.losses.estimators.hardness import HardnessWeighted
from trueneg.losses.estimators.learned_thresholds import LearnedThresholds
from trueneg.losses.estimators.log_q import LogQ
from trueneg.losses.estimators.oracle import Oracle
from trueneg.losses.estimators.quantile import Quantile
from trueneg.losses.estimators.removed import Removed
from trueneg.losses.estimators.resampled import Resampled
from trueneg.losses.estimators.reweighted import Reweighted
from trueneg.losses.estimators.sequence import Sequence
from trueneg.losses.estimators.sigmoid import Sigmoid
from trueneg.losses.estimators.uncorrected import Uncorrected
from trueneg.losses.relaxed import RelaxedContrastiveLoss

__all__ = [
    "AdjustedInfoNCE",
    "AnchorCriterion",
    "Anchors",
    "Bayesian",
    "ContrastiveLoss",
    "ContrastiveTerms",
    "CrossModalLoss",
    "Debiased",
    "Estimator",
    "GlobalMass",
    "Guided",
    "HardNegative",
    "HardnessWeighted",
    "LearnedThresholds",
    "LogQ",
    "LogitScale",
    "NegativeMass",
    "OpenClipLoss",
    "Oracle",
    "Quantile",
    "RelaxedContrastiveLoss",
    "Removed",
    "Resampled",
    "Reweighted",
    "Sequence",
    "Sigmoid",
    "SupConLoss",
    "Uncorrected",
    "build",
]

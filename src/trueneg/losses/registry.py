"""The objectives by name. Only lists: code fingerprints leave this module out, so a new line makes no earlier result stale."""

from collections.abc import Callable
from functools import partial

from torch import nn

from trueneg.losses.base import Estimator
from trueneg.losses.cross_modal import SymmetricInfoNCE
from trueneg.losses.estimators import Bayesian, Debiased, HardNegative, Oracle, Removed, Resampled, Reweighted, Uncorrected
from trueneg.losses.relaxed import RelaxedContrastiveLoss

ESTIMATORS: dict[str, type[Estimator]] = {
    "cl": Uncorrected,
    "dcl": Debiased,
    "hcl": HardNegative,
    "bcl": Bayesian,
    "remove": Removed,
    "reweight": Reweighted,
    "resample": Resampled,
    "oracle": Oracle,
}
WHOLE_LOSSES: dict[str, Callable[..., nn.Module]] = {
    "infonce": SymmetricInfoNCE,
    "reco": RelaxedContrastiveLoss,
    "oc": partial(RelaxedContrastiveLoss, relaxed=False),
}

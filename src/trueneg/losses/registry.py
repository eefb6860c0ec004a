"""Losses by name; estimators are discovered in :mod:`trueneg.losses.estimators`, so a new one
changes no existing file.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import partial

from torch import nn

from trueneg.losses import estimators
from trueneg.losses.base import Estimator
from trueneg.losses.relaxed import RelaxedContrastiveLoss

ESTIMATORS: dict[str, type[Estimator]] = {
    estimator.name: estimator
    for _, module, _ in pkgutil.iter_modules(estimators.__path__)
    for estimator in vars(importlib.import_module(f"{estimators.__name__}.{module}")).values()
    if isinstance(estimator, type)
    and issubclass(estimator, Estimator)
    and "name" in vars(estimator)
}
WHOLE_LOSSES: dict[str, Callable[..., nn.Module]] = {
    "reco": RelaxedContrastiveLoss,
    "oc": partial(RelaxedContrastiveLoss, relaxed=False, margin=0.0),
}

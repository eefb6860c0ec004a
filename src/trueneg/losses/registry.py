"""Losses by name; estimators are discovered in :mod:`trueneg.losses.estimators`, so a new one
changes no existing file.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import partial
from typing import Any

from trueneg.losses import estimators
from trueneg.losses.base import AnchorCriterion
from trueneg.losses.relaxed import RelaxedContrastiveLoss

ESTIMATORS: dict[str, type[AnchorCriterion]] = {
    estimator.name: estimator
    for _, module, _ in pkgutil.iter_modules(estimators.__path__)
    for estimator in vars(importlib.import_module(f"{estimators.__name__}.{module}")).values()
    if isinstance(estimator, type)
    and issubclass(estimator, AnchorCriterion)
    and "name" in vars(estimator)
}
ALIASES: dict[str, dict[str, Any]] = {
    "supcon": {"name": "cl", "targets": {"name": "same_class"}},
}
WHOLE_LOSSES: dict[str, Callable[..., RelaxedContrastiveLoss]] = {
    "reco": RelaxedContrastiveLoss,
    "oc": partial(RelaxedContrastiveLoss, relaxed=False, margin=0.0),
}

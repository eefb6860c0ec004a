"""Objectives, one module each; modules in this package are discovered automatically.

A module defines a subclass of ``TwoViewObjective`` for image studies, one of ``PairObjective`` (or,
without an estimator, ``PairLoss``) for image–text studies, or both; see
:mod:`trueneg.specs.objectives.base`.
"""

import importlib
import pkgutil

from trueneg.specs.discovery import by_tag
from trueneg.specs.objectives.base import PairLoss, TwoViewObjective

_MODULES = [
    importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)
]
OF_TWO_VIEWS = tuple(by_tag(_MODULES, TwoViewObjective).values())
OF_PAIRS = tuple(by_tag(_MODULES, PairLoss).values())

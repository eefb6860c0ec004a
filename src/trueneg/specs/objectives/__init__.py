"""Objectives, one module each; every module in this package is discovered automatically.

A module exports the settings of its objective as ``TWO_VIEWS`` for image studies and as ``PAIRS`` for image–text studies.
"""

import importlib
import pkgutil
from typing import Annotated, Any, Union

from pydantic import Discriminator

from trueneg.specs.objectives.base import Objective, PairEstimatorObjective, TwoViewObjective, completed

_MODULES = [importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)]
OF_TWO_VIEWS = tuple(completed(module.TWO_VIEWS, TwoViewObjective) for module in _MODULES if hasattr(module, "TWO_VIEWS"))
OF_PAIRS = tuple(completed(module.PAIRS, PairEstimatorObjective) for module in _MODULES if hasattr(module, "PAIRS"))


def union_of(*objectives: type[Objective]) -> Any:
    """Return the union of objectives, discriminated by name."""
    return Annotated[Union[objectives], Discriminator("name")]  # noqa: UP007 (the members are only known at run time)

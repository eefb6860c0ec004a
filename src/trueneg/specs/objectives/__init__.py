"""The objectives: one module each, found by being here.

A module names the settings of its objective in ``TWO_VIEWS`` if image studies have it, and in ``PAIRS`` if image–text studies do.
"""

import importlib
import pkgutil
from typing import Annotated, Any, Union

from pydantic import Discriminator

from trueneg.specs.objectives.base import Directed, Objective, TwoViews, completed

_MODULES = [importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)]
OF_TWO_VIEWS = tuple(completed(module.TWO_VIEWS, TwoViews) for module in _MODULES if hasattr(module, "TWO_VIEWS"))
OF_PAIRS = tuple(completed(module.PAIRS, Directed) for module in _MODULES if hasattr(module, "PAIRS"))


def union_of(*objectives: type[Objective]) -> Any:
    """Any of some objectives, told apart by name."""
    return Annotated[Union[objectives], Discriminator("name")]  # noqa: UP007 (of types that are not written out)

"""Objectives, one module each; modules in this package are discovered automatically.

A module defines a subclass of ``TwoViewObjective`` for image studies, one of ``PairObjective`` (or,
without an estimator, ``PairLoss``) for image–text studies, or both; see
:mod:`trueneg.specs.objectives.base`.
"""

import importlib
import pkgutil
from typing import Annotated, Any, Union

from pydantic import Discriminator

from trueneg.specs.objectives.base import Objective, PairLoss, TwoViewObjective

_MODULES = [
    importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)
]


def _named(base: type[Objective]) -> tuple[type[Objective], ...]:
    """Return the subclasses of `base` that the modules define; those without a name are bases of
    others.
    """
    defined = [
        (module.__name__, value)
        for module in _MODULES
        for value in vars(module).values()
        if isinstance(value, type)
    ]
    classes = [
        value for module, value in defined if value.__module__ == module and issubclass(value, base)
    ]
    return tuple(value for value in classes if "name" in value.model_fields)


OF_TWO_VIEWS = _named(TwoViewObjective)
OF_PAIRS = _named(PairLoss)


def union_of(*objectives: type[Objective]) -> Any:
    """Return the union of objectives, discriminated by name."""
    # The members are known at run time only.
    return Annotated[Union[objectives], Discriminator("name")]  # noqa: UP007

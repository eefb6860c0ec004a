"""Kinds of study, one module each; modules in this package are discovered automatically.

A module defines a subclass of ``TrainedStudy`` or ``ExperimentStudy``, which says everything about
the kind: its settings, and what reads, splits, trains, evaluates and shows its data.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator

from trueneg.errors import UserError
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.settings import Study, tag_of

_MODULES = [
    importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)
]
_CLASSES = [
    value
    for module in _MODULES
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, Study)
]
DEFAULT = "images"

# The study's class of each kind, by name.
KINDS: dict[str, Any] = {kind: study for study in _CLASSES for kind in tag_of(study)[1]}
TRAINED: dict[str, type[TrainedStudy]] = {
    kind: study for kind, study in KINDS.items() if issubclass(study, TrainedStudy)
}

if TYPE_CHECKING:  # type checkers cannot see modules discovered at import
    AnyStudy = Any
else:
    AnyStudy = Annotated[reduce(or_, KINDS.values()), Discriminator("kind")]


def kind_of(settings: Mapping[str, Any]) -> Any:
    """Return the class of the studies of a kind, given the settings of a study or of a run.

    Raises:
        UserError: if there is no such kind, as in results of a package that had another one.
    """
    stated = settings if "kind" in settings else settings.get("training", {})
    name = stated.get("kind", DEFAULT)
    if name not in KINDS:
        raise UserError(f"kind is {name!r}; expected one of: {', '.join(KINDS)}.")
    return KINDS[name]


def kind_name(study: Any) -> str:
    """Return the name of a kind."""
    return tag_of(study)[1][0]

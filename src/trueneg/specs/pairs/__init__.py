"""Sources of texts and of images with sentences, one module each; modules in this package are
discovered automatically.

A module defines a subclass of ``TextSettings`` and, if it has images with sentences, one of
``PairSettings``. The module of the same name in :mod:`trueneg.data.pairs` reads the data.
"""

import importlib
import pkgutil
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

from pydantic import Discriminator

from trueneg.specs.pairs.base import PairSettings, TextSettings
from trueneg.specs.settings import Settings

Base = TypeVar("Base", bound=Settings)

_MODULES = [
    importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)
]
_CLASSES = [
    value for module in _MODULES for value in vars(module).values() if isinstance(value, type)
]


def _by_source(base: type[Base]) -> dict[str, type[Base]]:
    """Map the name of each source to its subclass of `base`; classes shared by several sources have
    no field ``source``.
    """
    models = [
        model for model in _CLASSES if issubclass(model, base) and "source" in model.model_fields
    ]
    return {
        source: model
        for model in models
        for source in get_args(model.model_fields["source"].annotation)
    }


TEXTS = _by_source(TextSettings)
PAIRS = _by_source(PairSettings)

# Type checkers cannot see modules discovered at import.
if TYPE_CHECKING:
    AnyText = TextSettings
    AnyPairs = PairSettings
else:
    AnyText = Annotated[reduce(or_, TEXTS.values()), Discriminator("source")]
    AnyPairs = Annotated[reduce(or_, PAIRS.values()), Discriminator("source")]

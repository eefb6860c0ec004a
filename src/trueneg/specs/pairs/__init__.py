"""Sources of texts and of images with sentences, one module each; modules in this package are discovered automatically.

A module defines a subclass of ``TextSettings`` and, if it has images with sentences, one of ``PairSettings``. The module of the
same name in :mod:`trueneg.data.pairs` reads the data.
"""

import importlib
import pkgutil
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Discriminator

from trueneg.specs.pairs.base import PairSettings, TextSettings
from trueneg.specs.settings import tag_of

_MODULES = [importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)]
_CLASSES = [value for module in _MODULES for value in vars(module).values() if isinstance(value, type)]
# The classes that have a source; their base classes have none.
TEXTS = {source: value for value in _CLASSES if issubclass(value, TextSettings) for source in tag_of(value)[1]}
PAIRS = {source: value for value in _CLASSES if issubclass(value, PairSettings) for source in tag_of(value)[1]}

# Type checkers cannot see modules discovered at import.
if TYPE_CHECKING:
    AnyText = TextSettings
    AnyPairs = PairSettings
else:
    AnyText = Annotated[reduce(or_, TEXTS.values()), Discriminator("source")]
    AnyPairs = Annotated[reduce(or_, PAIRS.values()), Discriminator("source")]

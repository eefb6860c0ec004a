"""Sources of texts and of images with sentences, one module each; modules in this package are
discovered automatically.

A module defines a subclass of ``TextSettings`` and, if it has images with sentences, one of
``PairSettings``. The module of the same name in :mod:`trueneg.data.pairs` reads the data.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING

from trueneg.specs.discovery import by_tag, union_of
from trueneg.specs.pairs.base import PairSettings, TextSettings

# Settings of each source, by its name.
_MODULES = [
    importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)
]
TEXTS = by_tag(_MODULES, TextSettings)
PAIRS = by_tag(_MODULES, PairSettings)

# Type checkers cannot see modules discovered at import.
if TYPE_CHECKING:
    AnyText = TextSettings
    AnyPairs = PairSettings
else:
    AnyText = union_of("source", *TEXTS.values())
    AnyPairs = union_of("source", *PAIRS.values())

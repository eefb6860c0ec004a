"""Sources of texts for text studies, one module each; modules in this package are discovered
automatically.

A module defines a subclass of ``TextPairSettings``. The module of the same name in
:mod:`trueneg.data.texts` reads the data.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING

from trueneg.specs.discovery import by_tag, union_of
from trueneg.specs.texts.base import TextPairSettings

# Settings of each source, by its name.
_MODULES = [
    importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)
]
TEXT_PAIRS = by_tag(_MODULES, TextPairSettings)

if TYPE_CHECKING:  # type checkers cannot see modules discovered at import
    AnyTextPairs = TextPairSettings
else:
    AnyTextPairs = union_of("source", *TEXT_PAIRS.values())

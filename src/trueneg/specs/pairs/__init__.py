"""Sources of texts and of images with sentences, one module each; modules in this package are discovered automatically.

A module exports its text settings as ``TEXTS`` and, if it has images with sentences, their settings as ``PAIRS``. The module of
the same name in :mod:`trueneg.data.pairs` reads the data.
"""

import importlib
import pkgutil
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Discriminator

from trueneg.specs.pairs.base import PairSettings, TextSettings

_MODULES = {
    name: importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__) if name != "base"
}
TEXTS: dict[str, type[TextSettings]] = {name: module.TEXTS for name, module in _MODULES.items()}
PAIRS: dict[str, type[PairSettings]] = {name: module.PAIRS for name, module in _MODULES.items() if hasattr(module, "PAIRS")}

# Type checkers cannot see modules discovered at import.
if TYPE_CHECKING:
    AnyText = TextSettings
    AnyPairs = PairSettings
else:
    AnyText = Annotated[reduce(or_, TEXTS.values()), Discriminator("source")]
    AnyPairs = Annotated[reduce(or_, PAIRS.values()), Discriminator("source")]

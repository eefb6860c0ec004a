"""Sources of texts, and of images with sentences: one module each, found by being here.

A module names the settings of its texts in ``TEXTS``, and of its images with sentences, if it has any, in ``PAIRS``. The module
of the same name in :mod:`trueneg.data.pairs` reads the data.
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

# A type checker cannot know the modules that are found.
if TYPE_CHECKING:
    AnyText = TextSettings
    AnyPairs = PairSettings
else:
    AnyText = Annotated[reduce(or_, TEXTS.values()), Discriminator("source")]
    AnyPairs = Annotated[reduce(or_, PAIRS.values()), Discriminator("source")]

"""Sources of texts for text studies, one module each; modules in this package are discovered
automatically.

A module defines a subclass of ``TextPairSettings``. The module of the same name in
:mod:`trueneg.data.texts` reads the data.
"""

import importlib
import pkgutil
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Discriminator

from trueneg.specs.settings import tag_of
from trueneg.specs.texts.base import TextPairSettings

_MODULES = [
    importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)
]
_CLASSES = [
    value for module in _MODULES for value in vars(module).values() if isinstance(value, type)
]

# Settings of each source, by its name.
TEXT_PAIRS: dict[str, type[TextPairSettings]] = {
    source: model
    for model in _CLASSES
    if issubclass(model, TextPairSettings)
    for source in tag_of(model)[1]
}

if TYPE_CHECKING:  # type checkers cannot see modules discovered at import
    AnyTextPairs = TextPairSettings
else:
    AnyTextPairs = Annotated[reduce(or_, TEXT_PAIRS.values()), Discriminator("source")]

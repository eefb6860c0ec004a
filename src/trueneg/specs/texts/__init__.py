"""Sources of texts for text studies, one module each; modules in this package are discovered
automatically.

A module defines a subclass of ``TextPairSettings``. The module of the same name in
:mod:`trueneg.data.texts` reads the data.
"""

from typing import TYPE_CHECKING

from trueneg.specs.discovery import by_tag, union_of
from trueneg.specs.texts.base import TextPairSettings

# Settings of each source, by its name.
TEXT_PAIRS = by_tag(__name__, TextPairSettings)

if TYPE_CHECKING:  # type checkers cannot see modules discovered at import
    AnyTextPairs = TextPairSettings
else:
    AnyTextPairs = union_of("source", *TEXT_PAIRS.values())

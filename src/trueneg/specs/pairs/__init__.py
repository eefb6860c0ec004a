"""Sources of texts and of images with sentences, one module each; modules in this package are
discovered automatically.

A module defines a subclass of ``TextSettings`` and, if it has images with sentences, one of
``PairSettings``. The module of the same name in :mod:`trueneg.data.pairs` reads the data.
"""

from typing import TYPE_CHECKING

from trueneg.specs.discovery import by_tag, union_of
from trueneg.specs.pairs.base import PairSettings, TextSettings

# Settings of each source, by its name.
TEXTS = by_tag(__name__, TextSettings)
PAIRS = by_tag(__name__, PairSettings)

# Type checkers cannot see modules discovered at import.
if TYPE_CHECKING:
    AnyText = TextSettings
    AnyPairs = PairSettings
else:
    AnyText = union_of("source", *TEXTS.values())
    AnyPairs = union_of("source", *PAIRS.values())

"""Guides, one module each; every module in this package is discovered automatically.

A module exports the settings of its guide as ``TWO_VIEWS`` for image studies and as ``PAIRS`` for
image–text studies. A guide that only its own objectives use is exported as neither, or defined
beside its objective.
"""

import importlib
import pkgutil
from typing import Any

from trueneg.specs.discovery import union_of
from trueneg.specs.guides.base import GuideSettings
from trueneg.specs.settings import tag_of

_MODULES = [
    importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)
]
OF_TWO_VIEWS: tuple[type[GuideSettings], ...] = tuple(
    module.TWO_VIEWS for module in _MODULES if hasattr(module, "TWO_VIEWS")
)
OF_PAIRS: tuple[type[GuideSettings], ...] = tuple(
    module.PAIRS for module in _MODULES if hasattr(module, "PAIRS")
)
# by the name in configurations
GUIDES = {name: guide for guide in (*OF_TWO_VIEWS, *OF_PAIRS) for name in tag_of(guide)[1]}

TwoViewGuide: Any = union_of("name", *OF_TWO_VIEWS)
PairGuide: Any = union_of("name", *OF_PAIRS)

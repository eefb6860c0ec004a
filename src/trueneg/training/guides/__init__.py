"""Guides of both kinds of training; their settings in :mod:`trueneg.specs.guides` name these classes."""

import pkgutil
from collections.abc import Mapping
from typing import Any

from trueneg.specs.objectives.base import Objective
from trueneg.training.guides.base import Guide


def build_guide(objective: type[Objective], settings: Mapping[str, Any], run: Any) -> Guide | None:
    """Build the guide of an objective; None if it has none.

    Args:
        objective: the objective's class of settings.
        settings: its settings.
        run: see :class:`~trueneg.training.guides.base.Guide`.
    """
    described = objective.guide_of(settings)
    if described is None:
        return None
    guide, settings = described
    return pkgutil.resolve_name(guide.IMPLEMENTATION)(settings, run)

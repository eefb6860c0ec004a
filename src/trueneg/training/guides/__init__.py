"""Guides of both kinds of training; their settings in :mod:`trueneg.specs.guides` name these
classes.
"""

import pkgutil
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trueneg.specs.objectives.base import Objective
from trueneg.training.guides.base import Guide

if TYPE_CHECKING:
    from trueneg.training.loop import TrainingRun

# parts of a checkpoint, beside those of a guide
PARTS = {"network", "loss", "monitors", "optimizer"}


def build_guide(
    objective: type[Objective], settings: Mapping[str, Any], run: "TrainingRun"
) -> Guide | None:
    """Build the guide of an objective; None if it has none.

    Args:
        objective: the objective's class of settings.
        settings: its settings.
        run: see :class:`~trueneg.training.guides.base.Guide`.

    Raises:
        ValueError: if the guide's state would overwrite other parts of a checkpoint.
    """
    described = objective.guide_of(settings)
    if described is None:
        return None
    model, settings = described
    # The reference is weak: in a reference cycle, a finished run would occupy device memory until
    # the next garbage collection.
    guide: Guide = pkgutil.resolve_name(model.IMPLEMENTATION)(settings, weakref.proxy(run))
    if taken := PARTS & {name.partition(".")[0] for name in guide.state_dict()}:
        problem = (
            f"the state of {type(guide).__name__} is called {', '.join(sorted(taken))}, as another"
            " part of a checkpoint"
        )
        raise ValueError(f"{problem}; rename it.")
    return guide

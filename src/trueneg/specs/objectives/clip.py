"""CLIP's InfoNCE in both directions."""

from typing import Literal

from trueneg.specs.objectives.base import Pairs


class Clip(Pairs):
    """InfoNCE in both directions (CLIP)."""

    MODULES = ("trueneg.losses.estimators.uncorrected",)

    name: Literal["clip"]


PAIRS = Clip

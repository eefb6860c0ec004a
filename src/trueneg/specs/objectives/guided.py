"""Guided removal: drop negatives that a guide rates more similar than the anchor's own positive."""

from typing import Literal

from trueneg.specs.objectives.base import MaskSettings, PairMask, TwoViewObjective
from trueneg.specs.settings import Real, Sweepable


class GuidedRemoval(MaskSettings):
    """Settings of guided removal in every kind of study."""

    NEEDS_GUIDE = True

    name: Literal["guided"]
    margin: Sweepable[Real] = 0.0
    """subtracted from the positive's similarity; below 0, fewer are removed"""


class TwoViewGuidedRemoval(GuidedRemoval, TwoViewObjective):
    """Removes images that a guide rates more similar than the anchor's own positive (GISTEmbed,
    Qwen3).
    """


class PairGuidedRemoval(GuidedRemoval, PairMask):
    """Removes negatives that a guide rates more similar than the anchor's own positive (GISTEmbed,
    Qwen3).
    """

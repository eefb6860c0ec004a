"""Guided removal: drop negatives that a guide rates more similar than the anchor's own positive."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import Objective
from trueneg.specs.settings import Real, Sweepable


class GuidedRemoval(Objective):
    """Removes negatives that a guide rates more similar than the anchor's own positive (GISTEmbed, NV-Retriever, Qwen3)."""

    NEEDS_GUIDE = True

    name: Literal["guided"]
    margin: Sweepable[Real] = Field(0.0, description="subtracted from the positive's similarity; below 0, fewer are removed")
    strategy: Literal["absolute", "relative"] = Field(
        "absolute", description="relative: the margin is multiplied by the absolute similarity of the positive"
    )


TWO_VIEWS = PAIRS = GuidedRemoval

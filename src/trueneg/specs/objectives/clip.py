"""CLIP's InfoNCE in both directions."""

from typing import Literal

from trueneg.specs.objectives.base import PairLoss


class Clip(PairLoss):
    """InfoNCE in both directions (CLIP)."""

    LOSS = "cl"

    name: Literal["clip"]

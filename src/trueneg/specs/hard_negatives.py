"""Hard negatives that are mined with a frozen tower."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trueneg.specs.guides.encoder import TextTower
from trueneg.specs.settings import (
    Boolean,
    Count,
    CountFromZero,
    Real,
    Settings,
    Share,
    Sweepable,
    values_of,
)

DEPTH = 1000  # candidates that are kept of each anchor
BOUNDS = ("max_score", "absolute_margin", "relative_margin")  # settings of similarities


def upper_bound(name: str, value: float, positive: Any) -> Any:
    """Return the largest similarity that a setting allows.

    Args:
        name: ``max_score``, ``absolute_margin`` or ``relative_margin``.
        value: its value.
        positive: similarity of the positive, a tensor or an array.
    """
    bounds = {
        "max_score": positive * 0 + value,
        "absolute_margin": positive - value,
        "relative_margin": positive - abs(positive) * value,
    }
    return bounds[name]


class HardNegativeSettings(Settings):
    """An anchor's nearest texts, as far as they are allowed; drawn anew for each epoch.

    The settings have the names and the meaning that they have in sentence-transformers'
    ``mine_hard_negatives``; ranks count the candidates that are allowed, from the nearest.
    """

    text_encoder: TextTower | None = None
    """tower that mines, computed once; none: the study's own, which is frozen"""
    bm25: Boolean = False
    """rank texts by the words in common with the anchor (BM25, package bm25s) instead; bounds and
    margins are still of the tower's similarity
    """
    num_negatives: Count = 4
    """H, number of hard negatives of each anchor"""
    range_min: CountFromZero = 0
    """number of the nearest ones to skip"""
    range_max: Sweepable[Annotated[Count, Field(le=DEPTH)]] = Field(
        DEPTH, description=f"last rank to use, at most {DEPTH}"
    )
    max_score: Sweepable[Real] | None = None
    """largest similarity with the anchor"""
    min_score: Sweepable[Real] | None = None
    """smallest similarity with the anchor"""
    absolute_margin: Sweepable[Real] | None = None
    """m: similarities of at most s⁺ − m, with that of the positive, s⁺"""
    relative_margin: Sweepable[Real] | None = None
    """m: similarities of at most s⁺ − m·|s⁺|"""
    sampling: Literal["top", "random"] = "random"
    """top: the nearest ones; random: any between both ranks"""
    in_batch: Boolean = True
    """whether texts of the other anchors are negatives, too"""
    without_positives: Boolean = False
    """leave out texts with the anchor's label; uses labels"""
    false_share: Share | None = None
    """control: each one is replaced by the text of most equal similarity that has the anchor's
    label, with this probability, or has not; uses labels
    """
    shuffled: Boolean = False
    """control: each anchor gets those of another one"""

    @property
    def uses_labels(self) -> bool:
        """Whether the choice depends on labels."""
        return self.without_positives or self.false_share is not None

    @property
    def is_control(self) -> bool:
        """Whether they are not what a user would mine."""
        return self.shuffled or self.false_share is not None

    @model_validator(mode="after")
    def _ranks_and_controls(self):
        for last in values_of(self.range_max):
            if last - self.range_min < self.num_negatives:
                raise ValueError(
                    f".range_min is {self.range_min} and .range_max {last}; expected at least"
                    f" num_negatives, {self.num_negatives}, ranks between them"
                )
        if self.without_positives and self.false_share is not None:
            raise ValueError(".without_positives and .false_share are both set; remove one of them")
        return self

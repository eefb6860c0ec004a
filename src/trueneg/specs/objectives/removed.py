"""Remove negatives that are too similar."""

from typing import Annotated, Literal

from pydantic import Field

from trueneg.specs.guides.ema import EmaGuideSettings
from trueneg.specs.guides.own import OwnGuideSettings
from trueneg.specs.objectives.base import (
    ComponentsSettings,
    SimilarityObjective,
    SoftmaxSettings,
    TwoViewObjective,
)
from trueneg.specs.settings import Count, Real, Sweepable

TopK = Annotated[
    Count | None,
    Field(description="remove at most the k most similar samples of an anchor; null: no limit"),
]


class PairRemoved(SimilarityObjective):
    """Removes negatives that are too similar; with top_k and a guide, False Negative Cancellation
    by elimination.
    """

    name: Literal["remove"]
    threshold: Sweepable[Annotated[Real, Field(ge=0, le=1)]] = 0.5
    """θ: negatives with a greater similarity are removed; if by is text, θ is a quantile over
    random pairs: 0.9 removes the most similar tenth, ties included, and 1 removes nothing
    """
    top_k: TopK = None


class TwoViewRemoved(TwoViewObjective):
    """Removes images that the guide rates too similar; with top_k, False Negative Cancellation by
    elimination.
    """

    NEEDS_GUIDE = True

    name: Literal["remove"]
    threshold: Sweepable[Annotated[Real, Field(ge=-1, le=1)]] = 0.5
    """θ: images more similar than this are removed"""
    top_k: TopK = None

    def check_combination(self):
        super().check_combination()
        if isinstance(self.targets, SoftmaxSettings | ComponentsSettings) and isinstance(
            self.guide, OwnGuideSettings | EmaGuideSettings
        ):
            raise ValueError(
                f".targets.name is {self.targets.name}, which compares views, but remove compares"
                " whole samples; use targets.name fnc, or another objective"
            )

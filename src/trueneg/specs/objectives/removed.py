"""Remove negatives that are too similar."""

from typing import Annotated, Literal

from pydantic import Field

from trueneg.specs.objectives.base import KnownSimilarity
from trueneg.specs.settings import Real, Sweepable


class Removed(KnownSimilarity):
    """Removes negatives that are too similar."""

    name: Literal["remove"]
    threshold: Sweepable[Annotated[Real, Field(ge=0, le=1)]] = Field(
        0.5,
        description="θ: negatives with a greater similarity are removed; if by is text, θ is a quantile over random pairs: 0.9 "
        "removes the most similar tenth, ties included, and 1 removes nothing",
    )


PAIRS = Removed

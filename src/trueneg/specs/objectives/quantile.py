"""Remove the top share of an anchor's negatives."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import Objective
from trueneg.specs.settings import Share, Sweepable


class Quantile(Objective):
    """Removes the share of an anchor's negatives with the largest logits (the control `fnd` of GloFND)."""

    name: Literal["quantile"]
    share: Sweepable[Share] = Field(description="share of the negatives to remove")


TWO_VIEWS = PAIRS = Quantile

"""Images whose report holds the anchor's sentence are known false negatives."""

from typing import Literal

from pydantic import Field

from trueneg.specs.objectives.base import Directed
from trueneg.specs.settings import Sweepable


class SameSentence(Directed):
    """Images whose report holds the identical sentence are further positives, or no negatives."""

    MODULES = ("trueneg.losses.estimators.oracle",)

    name: Literal["same_sentence"]
    mode: Sweepable[Literal["left out", "positives"]] = Field("left out", description="of the negatives; or positives besides")


PAIRS = SameSentence

"""The mass over the known true negatives."""

from typing import Literal

from trueneg.specs.objectives.base import Objective


class Oracle(Objective):
    """The mass over the known true negatives: uses labels or the truth to show the possible gain; not a usable method."""

    name: Literal["oracle"]


TWO_VIEWS = PAIRS = Oracle

"""Oracle: sum over the known true negatives only."""

from typing import Literal

from trueneg.specs.objectives.base import Objective


class Oracle(Objective):
    """Oracle: uses labels or the truth to sum over true negatives only; it shows the possible gain and is not a usable method."""

    name: Literal["oracle"]


TWO_VIEWS = PAIRS = Oracle

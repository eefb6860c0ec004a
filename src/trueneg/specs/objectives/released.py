"""Released networks as they are. Image–text studies add the networks to these settings, so they are not among ``PAIRS``."""

from typing import Literal

from trueneg.specs.objectives.base import Objective


class Released(Objective):
    """No training: released networks are measured as they are, with their own projections."""

    MODULES = ()

    name: Literal["released"]

"""Unchanged released networks. Image–text studies add the networks to these settings, so there is no ``PAIRS`` here."""

from typing import Literal

from trueneg.specs.objectives.base import Objective


class Released(Objective):
    """No training: evaluates released networks unchanged, with their own projections."""

    MODULES = ()

    name: Literal["released"]

"""Objectives, one module each; modules in this package are discovered automatically.

A module defines a subclass of ``TwoViewObjective`` for image studies, one of ``PairObjective`` (or,
without an estimator, ``PairLoss``) for image–text studies, or both; see
:mod:`trueneg.specs.objectives.base`.
"""

from trueneg.specs.discovery import by_tag
from trueneg.specs.objectives.base import PairLoss, TwoViewObjective

OF_TWO_VIEWS = tuple(by_tag(__name__, TwoViewObjective).values())
OF_PAIRS = tuple(by_tag(__name__, PairLoss).values())

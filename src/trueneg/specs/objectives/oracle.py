"""The oracle: the mass over the known true negatives, with its controls."""

from typing import Annotated, Literal

from pydantic import Field

from trueneg.specs.objectives.base import EstimatorObjective, PairMask, TwoViewObjective
from trueneg.specs.settings import Boolean, Fraction, Real, Sweepable, values_of


class OracleSettings(EstimatorObjective):
    """Settings of the oracle in every kind of study."""

    name: Literal["oracle"]
    rescaled: Boolean = False
    """control: divide the mass by the share of negatives left"""
    precision: Sweepable[Fraction] = 1.0
    """control: also remove true negatives, until this share of the removed negatives is false in
    expectation
    """
    recall: Sweepable[Annotated[Real, Field(ge=0, le=1)]] = 1.0
    """control: probability that a false negative is removed"""
    shuffled: Boolean = False
    """control: remove as many negatives, but at random"""
    nearest: Boolean = False
    """control: remove as many negatives, but the most similar true ones"""

    def needs(self) -> list[tuple[str, str]]:
        return [("", "known matches"), *super().needs()]

    @property
    def is_control(self) -> bool:
        has_errors = {*values_of(self.precision), *values_of(self.recall)} != {1}
        return has_errors or self.rescaled or self.nearest or super().is_control

    def check_combination(self):
        super().check_combination()
        if self.shuffled and self.nearest:
            raise ValueError(".shuffled and .nearest are both true; set at most one of them")


class TwoViewOracle(OracleSettings, TwoViewObjective):
    """The mass over the known true negatives: uses labels to show the possible gain; not a usable
    method.
    """


class PairOracle(OracleSettings, PairMask):
    """The mass over the known true negatives: uses the truth to show the possible gain; not a
    usable method.
    """

"""The oracle: the mass over the known true negatives, with its controls."""

from typing import Annotated, Literal

from pydantic import Field

from trueneg.specs.objectives.base import MaskSettings, PairMask, TwoViewObjective
from trueneg.specs.settings import Boolean, Fraction, Real, Sweepable, values_of


class OracleSettings(MaskSettings):
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

    def needs(self) -> list[tuple[str, str]]:
        return [("", "known matches"), *super().needs()]

    @property
    def is_control(self) -> bool:
        has_errors = {*values_of(self.precision), *values_of(self.recall)} != {1}
        return has_errors or self.rescaled or super().is_control


class TwoViewOracle(OracleSettings, TwoViewObjective):
    """The mass over the known true negatives: uses labels to show the possible gain; not a usable
    method.
    """


class PairOracle(OracleSettings, PairMask):
    """The mass over the known true negatives: uses the truth to show the possible gain; not a
    usable method.
    """

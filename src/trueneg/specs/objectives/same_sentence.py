"""Treat images whose report contains the anchor's sentence as known false negatives."""

from typing import Literal

from trueneg.specs.objectives.base import PairObjective
from trueneg.specs.sections import Section
from trueneg.specs.settings import Sweepable, values_of


class SameSentence(PairObjective):
    """Images whose report contains the anchor's sentence are excluded from the negatives or added
    as positives.
    """

    LOSS = "oracle"
    MATCHES_REPORTS = True
    SEVERAL_POSITIVES = False  # has its own: ``mode``
    OF_TRAINING = PairObjective.OF_TRAINING | {"mode"}

    name: Literal["same_sentence"]
    mode: Sweepable[Literal["left out", "positives"]] = "left out"
    """excluded, or used as additional positives"""

    @classmethod
    def averages_positives(cls, settings: Section) -> bool:
        return settings["mode"] == "positives"

    def check_combination(self):
        if self.own_report != "negatives":
            raise ValueError(" already leaves out the anchor's own report; remove own_report")
        if "positives" in values_of(self.mode) and (self.targets is not None or self.decoupled):
            raise ValueError(" computes its own loss; remove targets and decoupled")
        super().check_combination()

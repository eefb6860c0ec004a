"""GloFND: remove negatives above thresholds learned per sample."""

from typing import Any, Literal

from trueneg.specs.guides.base import GuideSettings
from trueneg.specs.objectives.base import EstimatorObjective, PairCorrection, TwoViewObjective
from trueneg.specs.sections import Section
from trueneg.specs.settings import Fraction, Positive, Share, Sweepable, values_of


class ThresholdGuideSettings(GuideSettings):
    """Similarities from the networks being trained; a learned threshold of each anchor replaces
    that of its positive.
    """

    IMPLEMENTATION = "trueneg.training.guides.thresholds:ThresholdGuide"


class RelativeThresholdGuideSettings(GuideSettings):
    """Similarities minus the anchor's learned threshold."""

    IMPLEMENTATION = "trueneg.training.guides.thresholds:RelativeThresholdGuide"


class LearnedThreshold(EstimatorObjective):
    """Settings of GloFND in every kind of study."""

    GUIDE = ThresholdGuideSettings
    # with fewer, thresholds, which fall from 1 by at most `threshold_rate` per draw, hardly remove
    # anything
    DRAWS = 5
    LOSS = "guided"
    OF_TRAINING = EstimatorObjective.OF_TRAINING | {
        "share",
        "threshold_rate",
        "start",
        "loss",
        "rate",
    }

    name: Literal["glofnd"]
    share: Sweepable[Share] = 0.01
    """α: share of the negatives that the thresholds aim to remove"""
    threshold_rate: Positive = 0.05
    """learning rate of the thresholds"""
    start: Fraction = 0.35
    """fraction of the run after which thresholds are learned and used"""
    loss: Sweepable[Literal["batch", "global"]] = "batch"
    """loss over the remaining negatives: that of the batch (CL) or, as published, the global one
    (SogCLR)
    """
    rate: Sweepable[Fraction] | None = None
    """γ of the global loss; null: the default of `global`"""

    @classmethod
    def guide_of(cls, settings: Section) -> tuple[type[GuideSettings], Section]:
        return (
            RelativeThresholdGuideSettings
            if settings.get("loss") == "global"
            else ThresholdGuideSettings
        ), settings

    @classmethod
    def loss_settings(cls, settings: Section) -> dict[str, Any]:
        used = super().loss_settings(settings)
        if settings.get("loss") != "global":
            return used
        return (
            used
            | {"name": "global", "filtered": True}
            | ({} if settings.get("rate") is None else {"rate": settings["rate"]})
        )

    def check_combination(self):
        super().check_combination()
        if self.rate is not None and "global" not in values_of(self.loss):
            raise ValueError(
                ".rate is set, but loss is batch, which has no moving averages; set loss to global,"
                " or remove rate"
            )


class TwoViewLearnedThreshold(LearnedThreshold, TwoViewObjective):
    """Removes negatives above thresholds learned per training sample (GloFND)."""


class PairLearnedThreshold(LearnedThreshold, PairCorrection):
    """Removes negatives above thresholds learned per training sample and direction (GloFND)."""

    VERSION = 2  # thresholds are not learned from columns that are no negatives

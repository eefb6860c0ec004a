"""GloFND: remove negatives above thresholds learned per sample."""

from typing import ClassVar, Literal

from pydantic import Field

from trueneg.specs.guides.base import GuideSettings
from trueneg.specs.objectives.base import EstimatorObjective, PairObjective, TwoViewObjective
from trueneg.specs.settings import Fraction, Positive, Share, Sweepable


class ThresholdGuide(GuideSettings):
    """Similarities from the networks being trained; a learned threshold of each anchor replaces that of its positive."""

    IMPLEMENTATION = "trueneg.training.guides.thresholds:ThresholdGuide"


class LearnedThreshold(EstimatorObjective):
    """What GloFND in both kinds of study has in common."""

    IMPLEMENTED_IN: ClassVar[tuple[str, ...]] = (
        "losses/estimators/guided.py",
        "losses/estimators/learned_thresholds.py",
        "training/guides/thresholds.py",
    )
    GUIDE = ThresholdGuide
    LOSS = "guided"
    OF_TRAINING = EstimatorObjective.OF_TRAINING | {"share", "threshold_rate", "start"}

    name: Literal["glofnd"]
    share: Sweepable[Share] = Field(0.01, description="α: share of the negatives that the thresholds aim to remove")
    threshold_rate: Positive = Field(0.05, description="learning rate of the thresholds")
    start: Fraction = Field(0.35, description="fraction of the run after which thresholds are learned and used")


class TwoViewLearnedThreshold(LearnedThreshold, TwoViewObjective):
    """Removes negatives above thresholds learned per training sample (GloFND)."""


class PairLearnedThreshold(LearnedThreshold, PairObjective):
    """Removes negatives above thresholds learned per training sample and direction (GloFND)."""

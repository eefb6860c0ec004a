"""The networks being trained, with learned thresholds, as the guide of GloFND."""

from trueneg.specs.guides.base import GuideSettings


class ThresholdGuide(GuideSettings):
    """Similarities from the networks being trained, and a threshold per training sample in place of the positive's similarity."""

    IMPLEMENTATION = "trueneg.training.guides.thresholds:ThresholdGuide"

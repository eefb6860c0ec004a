"""A moving average of the networks as the guide."""

from typing import Literal

from trueneg.specs.guides.base import GuideSettings
from trueneg.specs.settings import OpenFraction


class EmaGuideSettings(GuideSettings):
    """Similarities from an exponential moving average (EMA) of the networks being trained."""

    IMPLEMENTATION = "trueneg.training.guides.ema:EmaGuide"

    name: Literal["ema"]
    momentum: OpenFraction = 0.99
    """share of the average that an update keeps"""


TWO_VIEWS = PAIRS = EmaGuideSettings

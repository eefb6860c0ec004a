"""A moving average of the networks as the guide."""

from typing import Literal

from pydantic import Field

from trueneg.specs.guides.base import GuideSettings
from trueneg.specs.settings import OpenFraction


class EmaGuideSettings(GuideSettings):
    """Similarities from an exponential moving average (EMA) of the networks being trained."""

    IMPLEMENTATION = "trueneg.training.guides.ema:EmaGuide"

    name: Literal["ema"]
    momentum: OpenFraction = Field(0.99, description="share of the average that an update keeps")


TWO_VIEWS = PAIRS = EmaGuideSettings

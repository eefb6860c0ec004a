"""The networks being trained as their own guide."""

from typing import Literal

from trueneg.specs.guides.base import GuideSettings


class OwnGuideSettings(GuideSettings):
    """Similarities from the networks being trained, without gradient."""

    IMPLEMENTATION = "trueneg.training.guides.own:OwnGuide"

    name: Literal["self"]


TWO_VIEWS = PAIRS = OwnGuideSettings

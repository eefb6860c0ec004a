"""Labels as the guide."""

from typing import Literal

from trueneg.specs.guides.base import GuideSettings


class LabelGuideSettings(GuideSettings):
    """Labels: whether two images have the same class or, with several labels, the cosine of the
    masks of positive labels.
    """

    IMPLEMENTATION = "trueneg.training.guides.labels:LabelGuide"
    NEEDS = "labels"
    RATES_IMAGES = True

    name: Literal["labels"]


class SharedLabelGuideSettings(GuideSettings):
    """Whether two images share a positive label (``by: labels``)."""

    IMPLEMENTATION = "trueneg.training.guides.labels:SharedLabelGuide"
    NEEDS = "labels"


TWO_VIEWS = PAIRS = LabelGuideSettings

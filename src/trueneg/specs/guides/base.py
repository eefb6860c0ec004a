"""Base class of the settings of guides."""

from typing import ClassVar

from pydantic import Field

from trueneg.specs.settings import Boolean, Settings

LANGUAGE_MODEL = "a language model"  # a need


class GuideSettings(Settings):
    """Settings of a guide, which rates how similar the samples of a batch are.

    Attributes:
        IMPLEMENTATION: module and class of the guide, a :class:`trueneg.training.guides.base.Guide`.
        RATES_IMAGES: whether two views of an image have a similarity of 1, the largest, as it rates images, not views.
        NEEDS: what the data must provide (a key of ``TrainedStudy.provided``); empty: nothing.
    """

    IMPLEMENTATION: ClassVar[str]
    NEEDS: ClassVar[str] = ""
    RATES_IMAGES: ClassVar[bool] = False


class CosineGuide(GuideSettings):
    """Settings shared by guides that compare vectors."""

    normalised: Boolean = Field(
        False,
        description="true: rate with (s − o) / (1 − o), where o is a moving average of the mean similarity of different samples, "
        "so that a threshold means the same for every guide (FaNe)",
    )

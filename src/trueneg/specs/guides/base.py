"""Base class of the settings of guides."""

from typing import ClassVar

from trueneg.specs.settings import Settings

LANGUAGE_MODEL = "a language model"  # a need


class GuideSettings(Settings):
    """Settings of a guide, which rates how similar the samples of a batch are.

    Attributes:
        IMPLEMENTATION: module and class of the guide, a
            :class:`trueneg.training.guides.base.Guide`.
        RATES_IMAGES: whether two views of an image have a similarity of 1, the largest, as it rates
            images, not views.
        NEEDS: what the data must provide (a key of ``TrainedStudy.provided``); empty: nothing.
    """

    IMPLEMENTATION: ClassVar[str]
    NEEDS: ClassVar[str] = ""
    RATES_IMAGES: ClassVar[bool] = False

    @property
    def is_control(self) -> bool:
        """Whether its similarities are those of other samples, drawn at random."""
        return getattr(self, "permuted", False)

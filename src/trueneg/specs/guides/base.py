"""Base class of the settings of guides."""

from typing import ClassVar

from trueneg.specs.settings import Settings


class GuideSettings(Settings):
    """Settings of a guide, which rates how similar the samples of a batch are.

    Attributes:
        IMPLEMENTATION: module and class of the guide, a :class:`trueneg.training.guides.base.Guide`.
        NEEDS_LANGUAGE_MODEL: whether the guide embeds sentences with the language model that provides η.
    """

    IMPLEMENTATION: ClassVar[str]
    NEEDS_LANGUAGE_MODEL: ClassVar[bool] = False

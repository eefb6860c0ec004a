"""The words of sentences as the guide."""

from typing import Literal

from trueneg.specs.guides.base import GuideSettings
from trueneg.specs.settings import Boolean


class WordGuideSettings(GuideSettings):
    """The cosine between the tf-idf vectors of sentences, with document frequencies from the
    training sentences.
    """

    IMPLEMENTATION = "trueneg.training.guides.words:WordGuide"

    name: Literal["words"]
    permuted: Boolean = False
    """control: each sentence gets the words of another one, drawn at random"""


PAIRS = WordGuideSettings

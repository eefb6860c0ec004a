"""A language model's sentence embeddings as the guide."""

from trueneg.specs.guides.base import LANGUAGE_MODEL, GuideSettings


class SentenceGuideSettings(GuideSettings):
    """The cosine between centred sentence embeddings of the language model that provides η (``by:
    text``).
    """

    IMPLEMENTATION = "trueneg.training.guides.sentences:SentenceGuide"
    NEEDS = LANGUAGE_MODEL

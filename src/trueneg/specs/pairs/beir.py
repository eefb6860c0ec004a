"""Queries and their right answers in a corpus, whose likelihoods are computed."""

from trueneg.specs.pairs.base import TextSettings
from trueneg.specs.texts.base import LabelSets
from trueneg.specs.texts.beir import BeirFolder


class BeirTextsSettings(BeirFolder, TextSettings):
    """The training queries and their right answers; use the same settings as the text study."""

    captions = True

    labels: LabelSets | None = None
    """none: the texts have no labels"""

"""User-supplied texts of a text study, whose likelihoods are computed."""

from trueneg.specs.pairs.base import TextSettings
from trueneg.specs.texts.base import LabelSets
from trueneg.specs.texts.text_table import TextTableColumns


class TextTableTextsSettings(TextTableColumns, TextSettings):
    """The texts of a table that training may use; use the same settings as the text study."""

    captions = True

    labels: LabelSets | None = None
    """as in the text study; only texts of training labels are scored"""

"""CLINC150's questions, whose likelihoods are computed."""

from typing import Literal

from trueneg.specs.pairs.base import TextSettings
from trueneg.specs.settings import PathText, Technical
from trueneg.specs.texts.base import LabelSets


class Clinc150TextsSettings(TextSettings):
    """CLINC150's training questions; use the same settings as the text study."""

    captions = True

    source: Literal["clinc150"]
    path: Technical[PathText]
    """JSON file, such as data_full.json or data_imbalanced.json"""
    labels: LabelSets | None = None
    """as in the text study; only texts of training labels are scored"""

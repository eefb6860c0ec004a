"""CLINC150: questions to an assistant with 150 intents in ten domains."""

from typing import Literal

from trueneg.specs.settings import PathText, Technical
from trueneg.specs.texts.base import TextPairSettings


class Clinc150Settings(TextPairSettings):
    """CLINC150 with its own training, validation and test texts; out-of-scope texts are left out
    and counted.
    """

    source: Literal["clinc150"]
    path: Technical[PathText]
    """JSON file, such as data_full.json or data_imbalanced.json"""
    positives: Literal["same_label", "dropout"] = "same_label"
    """same_label: another text with the intent; dropout: the text itself, with
    other dropout masks
    """

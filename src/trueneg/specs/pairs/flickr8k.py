"""Flickr8k: photographs with captions."""

from typing import Literal

from trueneg.specs.pairs.base import PairSettings, TextSettings
from trueneg.specs.settings import PathText, Technical


class Flickr8kCaptionsSettings(TextSettings):
    """Flickr8k's captions: one sentence each, five per photograph."""

    captions = True

    source: Literal["flickr8k"]
    path: Technical[PathText]
    """folder of the photographs and captions, in the official layout or as parquet files"""


class Flickr8kPairSettings(PairSettings):
    """Flickr8k's photographs in the official splits, with captions from a likelihood study."""

    labelled = False
    greyscale = False
    rated = True

    source: Literal["flickr8k"]

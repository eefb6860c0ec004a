"""Flickr30k: photographs with captions."""

from typing import Literal

from trueneg.specs.pairs.base import PairSettings, TextSettings
from trueneg.specs.resources import ReadingResources
from trueneg.specs.settings import PathText, Technical


class Flickr30kCaptionsSettings(TextSettings):
    """Flickr30k's captions: one sentence each, five per photograph."""

    captions = True

    source: Literal["flickr30k"]
    path: Technical[PathText]
    """folder of the photographs, captions and Karpathy's splits, or of parquet files"""


class Flickr30kPairSettings(PairSettings):
    """Flickr30k's photographs, with captions from a likelihood study."""

    labelled = False
    greyscale = False
    RESOURCES = ReadingResources(mem_mb=8000, runtime=240, threads=4)

    source: Literal["flickr30k"]
    split: Literal["karpathy", "reco"] = "karpathy"
    """karpathy: 29,000 training, 1,014 validation and 1,000 test photographs; reco: train on the
    first two, validate on the photographs outside all three
    """

"""Open-I: radiographs with their reports."""

from typing import Literal

from trueneg.specs.pairs.base import PairSettings, SplitPairSettings, TextSettings
from trueneg.specs.settings import PathText, Technical


class OpenIReportsSettings(TextSettings):
    """The 3,955 reports of Open-I, with classes from their expert MeSH codes."""

    classes_known = True

    source: Literal["open_i"]
    path: Technical[PathText | None] = None
    """NLMCXR_reports.tgz, or its folder; none: the file in the torchxrayvision package"""


class OpenIPairSettings(SplitPairSettings):
    """Open-I's frontal radiographs, with reports from a likelihood study that reads Open-I."""

    truth_known = True
    TEXT_TABLES = (*PairSettings.TEXT_TABLES, "assigned")

    source: Literal["open_i"]
    path: Technical[PathText]
    """folder of the radiographs and their images.csv"""

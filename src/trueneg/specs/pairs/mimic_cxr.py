"""MIMIC-CXR: radiographs with their reports (restricted access)."""

from typing import ClassVar, Literal

from trueneg.specs.pairs.base import PairSettings, TextSettings
from trueneg.specs.resources import ReadingResources
from trueneg.specs.settings import PathText, Technical


class MimicReportsSettings(TextSettings):
    """MIMIC-CXR's reports in the official layout; restricted: their text never appears in logs,
    figures or the results page.
    """

    restricted: ClassVar[bool] = True

    source: Literal["mimic_cxr"]
    path: Technical[PathText]
    """folder that contains files/p10/p10000032/s50414267.txt and so on"""


class MimicCxrPairSettings(PairSettings):
    """MIMIC-CXR-JPG's radiographs in the official splits, with reports from a likelihood study that
    reads MIMIC-CXR.
    """

    restricted: ClassVar[bool] = True
    boxed_splits = ("test",)
    RESOURCES = ReadingResources(mem_mb=16000, runtime=720, threads=8)

    source: Literal["mimic_cxr"]
    path: Technical[PathText]
    """folder of MIMIC-CXR-JPG, with its tables"""
    views: Literal["frontal", "all"] = "frontal"
    """frontal: AP, PA; all: also lateral images, in every split"""
    fit: Literal["crop", "stretch"] = "crop"
    """crop: resize the shorter side, keep the central square; stretch: resize both sides and keep
    all
    """
    ms_cxr: str | None = None
    """folder of MS-CXR; its patients form part of the test split; none: no boxes"""

    @property
    def boxed(self) -> bool:  # type: ignore[override]  # a class attribute in other sources
        """Whether boxes for the sentences are known: true if MS-CXR's folder is given."""
        return self.ms_cxr is not None

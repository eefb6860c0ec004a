"""Prec@k on CheXpert 8×200."""

from typing import Any, ClassVar

from trueneg.specs.settings import PathText, Technical
from trueneg.specs.tasks.base import EACH_CLASS
from trueneg.specs.tasks.pairs.precision import PrecisionSettings
from trueneg.stats.measurement import Measurement


class Chexpert8x200Settings(PrecisionSettings):
    """ConVIRT's retrieval of CheXpert images with image and sentence queries (ReCo, Table 1)."""

    ROWS = ("chexpert 8x200",)
    NEEDS = "greyscale images"
    CHANCE: ClassVar = {"Prec": 1 / 8}  # for any list length: eight labels with equally many images

    path: Technical[PathText]
    """folder of the CheXpert images"""
    lists: Technical[str]
    """clone of the repository with ConVIRT's lists"""

    def classes(self, study: Any) -> tuple[str, ...]:
        return (EACH_CLASS,)

    def splits(self, study: Any, measured: Measurement) -> tuple[str, ...]:
        return ("test",)


TASK = Chexpert8x200Settings

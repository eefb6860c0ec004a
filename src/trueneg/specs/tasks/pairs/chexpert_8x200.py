"""Prec@k on CheXpert 8×200."""

from typing import ClassVar

from pydantic import Field

from trueneg.specs.settings import PathText
from trueneg.specs.tasks.pairs.precision import PrecisionSettings


class Chexpert8x200Settings(PrecisionSettings):
    """ConVIRT's retrieval of CheXpert images with image and sentence queries (ReCo, Table 1)."""

    ROWS = ("chexpert 8x200",)
    NEEDS = None
    CHANCE: ClassVar = {"Prec": 1 / 8}  # for any list length: eight labels with equally many images

    path: PathText = Field(description="folder of the CheXpert images", json_schema_extra={"technical": True})
    lists: str = Field(description="folder of a clone of the ConVIRT lists", json_schema_extra={"technical": True})


TASK = Chexpert8x200Settings

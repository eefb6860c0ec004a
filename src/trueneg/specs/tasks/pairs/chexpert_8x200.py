"""Prec@k on CheXpert 8×200."""

from typing import Any, ClassVar

from pydantic import Field

from trueneg.specs.settings import Count, PathText
from trueneg.specs.tasks.base import PRECISION, Task
from trueneg.specs.tasks.pairs import BY_LABEL, of_retrieval


class Chexpert8x200Settings(Task):
    """ConVIRT's retrieval of CheXpert's images by images and by sentences (ReCo, Table 1)."""

    ROWS = ("chexpert 8x200",)
    OPTIONAL = "measured where given"
    METRICS = PRECISION
    CHANCE: ClassVar = {"Prec": 1 / 8}  # of any list length: as many images of each of eight labels

    path: PathText = Field(description="folder of CheXpert's images", json_schema_extra={"technical": True})
    lists: str = Field(description="clone of ConVIRT's lists", json_schema_extra={"technical": True})
    ks: list[Count] = Field([5, 10, 50], min_length=1, description="k of Prec@k")

    def columns(self, row: str) -> dict[str, list[Any]]:
        return of_retrieval(self.ks, BY_LABEL)


TASK = Chexpert8x200Settings

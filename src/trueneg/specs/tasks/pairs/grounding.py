"""Grounding of sentences in images."""

from typing import ClassVar

from pydantic import Field

from trueneg.specs.settings import NonNegative
from trueneg.specs.tasks.base import Metric, Task


class GroundingSettings(Task):
    """Localisation of sentences in images, compared with boxes."""

    ROWS = ("grounding",)
    NEEDS = "boxes"
    METRICS: ClassVar = {
        "CNR": Metric("CNR", decimals=3),
        "CNR signed": Metric("CNR with its sign", decimals=3),
        "mIoU": Metric("mean IoU", decimals=3),
    }
    CHANCE: ClassVar = {"CNR": 0.0, "CNR signed": 0.0}

    smoothing: NonNegative = Field(0.0, description="standard deviation of Gaussian smoothing, in grid cells (BioViL: 1.5)")


TASK = GroundingSettings

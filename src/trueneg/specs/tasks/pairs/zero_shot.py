"""Zero-shot classification."""

from typing import ClassVar

from pydantic import Field

from trueneg.specs.settings import Settings
from trueneg.specs.tasks.base import AUC, Metric, Task, percent


class PromptSettings(Settings):
    """Two sentences that an image is compared with."""

    negative: str = Field(min_length=1, description="sentence that describes an image without the finding")
    positive: str = Field(min_length=1, description="sentence that describes an image with the finding")


class ZeroShotSettings(Task):
    """Classification by comparing an image with two sentences."""

    ROWS = ("zero-shot",)
    NEEDS = "labels"
    METRICS = AUC | {"AUC positive prompt": Metric("AUC of the positive prompt alone", decimals=3), "ACC": percent("accuracy")}
    CHANCE: ClassVar = {"AUC": 0.5, "AUC positive prompt": 0.5}

    prompts: dict[str, PromptSettings] | None = Field(
        None, description="prompts by label; none: those in Table 2 of Sample-Specific Debiasing"
    )


TASK = ZeroShotSettings

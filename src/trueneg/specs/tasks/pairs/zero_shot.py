"""Zero-shot classification."""

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from trueneg.specs.pairs.base import PairSettings
from trueneg.specs.settings import Settings
from trueneg.specs.tasks.base import AUC, DisplayedMetric, Task, by_class, percent
from trueneg.stats.measurement import Measurement


class PromptSettings(Settings):
    """Two sentences that an image is compared with."""

    negative: str = Field(min_length=1)
    """sentence that describes an image without the finding"""
    positive: str = Field(min_length=1)
    """sentence that describes an image with the finding"""


class ZeroShotSettings(Task):
    """Classification by comparing an image with two sentences."""

    ROWS = ("zero-shot",)
    NEEDS = "labels with prompts"
    METRICS = AUC | {
        "AUC positive prompt": DisplayedMetric("AUC of the positive prompt alone", decimals=3),
        "ACC": percent("accuracy"),
    }
    CHANCE: ClassVar = {"AUC": 0.5, "AUC positive prompt": 0.5}

    prompts: dict[str, PromptSettings] | None = None
    """by label; none: Table 2 of Sample-Specific Debiasing"""

    def rows(self, study: Any) -> Iterator[Measurement]:
        prompts = self.prompts or PairSettings.label_names  # the paper has prompts for these labels
        for measured in super().rows(study):
            yield from by_class(
                measured, *(name for name in study.dataset.label_names if name in prompts)
            )


TASK = ZeroShotSettings

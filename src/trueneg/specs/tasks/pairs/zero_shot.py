"""Zero-shot classification."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from trueneg.specs.settings import Settings
from trueneg.specs.tasks.base import AUC, Metric, Task, by_class, percent
from trueneg.stats.measurement import Measurement

# Sample-Specific Debiasing (2023), Table 2. The prompts have full stops in the paper's main text but not in the table.
PROMPTS: Mapping[str, Mapping[str, str]] = {
    "pneumonia": {"negative": "No signs of pneumonia", "positive": "Findings suggesting pneumonia"},
    "cardiomegaly": {"negative": "Heart size normal", "positive": "Cardiomegaly"},
    "edema": {"negative": "No pulmonary edema", "positive": "Pulmonary edema"},
    "effusion": {"negative": "No pleural effusions", "positive": "Pleural effusions"},
    "pneumothorax": {"negative": "No pneumothorax", "positive": "Pneumothorax"},
}


class PromptSettings(Settings):
    """Two sentences that an image is compared with."""

    negative: str = Field(min_length=1, description="sentence that describes an image without the finding")
    positive: str = Field(min_length=1, description="sentence that describes an image with the finding")


class ZeroShotSettings(Task):
    """Classification by comparing an image with two sentences."""

    ROWS = ("zero-shot",)
    NEEDS = "labels with prompts"
    METRICS = AUC | {"AUC positive prompt": Metric("AUC of the positive prompt alone", decimals=3), "ACC": percent("accuracy")}
    CHANCE: ClassVar = {"AUC": 0.5, "AUC positive prompt": 0.5}

    prompts: dict[str, PromptSettings] | None = Field(
        None, description="prompts by label; none: those in Table 2 of Sample-Specific Debiasing"
    )

    def rows(self, study: Any) -> Iterator[Measurement]:
        prompts = self.prompts or PROMPTS
        for one in super().rows(study):
            yield from by_class(one, *(name for name in study.dataset.label_names if name in prompts))


TASK = ZeroShotSettings

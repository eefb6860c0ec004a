"""SupCon: all samples of the anchor's class are positives."""

from typing import Any, Literal

from trueneg.specs.guides.labels import SharedLabelGuideSettings
from trueneg.specs.objectives.base import EstimatorObjective, PairObjective, TwoViewObjective
from trueneg.specs.sections import Section


class Supervised(EstimatorObjective):
    """Settings of SupCon in every kind of study."""

    GUIDE = SharedLabelGuideSettings
    LOSS = "cl"

    name: Literal["supcon"]

    def needs(self) -> list[tuple[str, str]]:
        return [("", SharedLabelGuideSettings.NEEDS), *super().needs()]

    @classmethod
    def loss_settings(cls, settings: Section) -> dict[str, Any]:
        # False Negative Cancellation's targets are uniform over what a guide finds; labels find the
        # samples of the class.
        return super().loss_settings(settings) | {
            "targets": {"name": "fnc", "threshold": 0.5, "top_k": None}
        }

    def check_combination(self):
        if unused := [key for key in ("targets", "guide") if getattr(self, key) is not None]:
            raise ValueError(
                f".{unused[0]} is set, but supcon takes its targets from the labels; remove"
                f" {' and '.join(unused)}"
            )


class TwoViewSupervised(Supervised, TwoViewObjective):
    """All images of the anchor's class are positives (Khosla et al., 2020): uses labels as a
    reference; not a usable method.
    """


class PairSupervised(Supervised, PairObjective):
    """All samples that share a label with the anchor are positives (Khosla et al., 2020): uses
    labels; not a usable method.
    """

    SEVERAL_POSITIVES = False  # has its own: the class

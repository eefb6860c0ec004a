"""The linear probe on augmented images."""

from pydantic import Field

from trueneg.specs.settings import Positive
from trueneg.specs.tasks.pairs import ClassifierSettings


class AugmentedClassifierSettings(ClassifierSettings):
    """A linear head on the frozen encoder, trained on augmented images (ReCo, section 4.3)."""

    ROWS = ("augmented linear probe",)
    OPTIONAL = "measured only if given"

    learning_rate: Positive = Field(0.01, description="learning rate of Adam")


TASK = AugmentedClassifierSettings

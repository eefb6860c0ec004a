"""The linear probe on augmented images."""

from trueneg.specs.settings import Positive
from trueneg.specs.tasks.pairs import ClassifierSettings


class AugmentedClassifierSettings(ClassifierSettings):
    """A linear head on the frozen encoder, trained on augmented images (ReCo, section 4.3)."""

    ROWS = ("augmented linear probe",)
    OPTIONAL = "measured only if given"

    learning_rate: Positive = 0.01
    """learning rate of Adam"""


TASK = AugmentedClassifierSettings

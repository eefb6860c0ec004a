"""The linear probe of image–text studies."""

from trueneg.specs.settings import Count, Positive
from trueneg.specs.tasks.pairs import ClassifierSettings


class MultiLabelProbeSettings(ClassifierSettings):
    """Logistic regressions on the frozen encoder's features; unknown labels are ignored."""

    ROWS = ("linear probe",)

    epochs: Count = 100
    """passes over the labelled images"""
    batch_size: Count = 512
    """labelled images per step"""
    learning_rate: Positive = 1e-3
    """learning rate of Adam"""


TASK = MultiLabelProbeSettings

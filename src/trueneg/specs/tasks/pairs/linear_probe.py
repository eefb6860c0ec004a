"""The linear probe of image–text studies."""

from pydantic import Field

from trueneg.specs.settings import Count, Positive
from trueneg.specs.tasks.pairs import ClassifierSettings


class MultiLabelProbeSettings(ClassifierSettings):
    """Logistic regressions on the frozen encoder's features; unknown labels are ignored."""

    ROWS = ("linear probe",)

    epochs: Count = Field(100, description="passes over the labelled images")
    batch_size: Count = Field(512, description="labelled images per step")
    learning_rate: Positive = Field(1e-3, description="learning rate of Adam")


TASK = MultiLabelProbeSettings

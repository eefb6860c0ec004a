"""The linear probe of text studies."""

from trueneg.specs.settings import Positive
from trueneg.specs.tasks.texts import LabelTask


class TextProbeSettings(LabelTask):
    """Logistic regression on the vectors of the training texts."""

    ROWS = BY_SAMPLE = ("linear probe",)

    C: Positive = 10.0
    """inverse strength of the L2 penalty, as in scikit-learn; vectors have length 1"""


TASK = TextProbeSettings

"""Fine-tuning with labels."""

from trueneg.specs.tasks.pairs import ClassifierSettings


class FineTuningSettings(ClassifierSettings):
    """Joint training of the encoder and a linear head."""

    ROWS = ("fine-tuning",)
    OPTIONAL = "measured where given: trains the encoder several times"


TASK = FineTuningSettings

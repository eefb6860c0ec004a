"""Fine-tuning with labels."""

from trueneg.specs.tasks.pairs import ClassifierSettings


class FineTuningSettings(ClassifierSettings):
    """Encoder and a linear head trained together."""

    ROWS = ("fine-tuning",)
    OPTIONAL = "measured where given: trains the encoder several times"


TASK = FineTuningSettings

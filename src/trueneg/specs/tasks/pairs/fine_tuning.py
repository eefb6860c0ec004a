"""Fine-tuning on labelled images."""

from trueneg.specs.tasks.pairs import ClassifierSettings


class FineTuningSettings(ClassifierSettings):
    """Joint training of the encoder and a linear head."""

    ROWS = ("fine-tuning",)
    OPTIONAL = "measured only if given, because it trains the encoder several times"


TASK = FineTuningSettings

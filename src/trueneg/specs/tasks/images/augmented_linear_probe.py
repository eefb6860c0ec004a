"""The linear probe of image studies on augmented images."""

from trueneg.specs.settings import Boolean
from trueneg.specs.tasks.images.linear_probe import LinearProbeSettings


class AugmentedProbeSettings(LinearProbeSettings):
    """A linear classifier on the frozen encoder, trained on augmented images as in the public code
    of DCL, HCL and BCL.
    """

    VERSION = 1  # of its own
    ROWS = ("augmented linear probe",)
    OPTIONAL = "measured only if given, because it encodes the labelled images again in every epoch"

    update_batch_norm: Boolean = True
    """update the encoder's batch statistics, as the public code does"""


TASK = AugmentedProbeSettings

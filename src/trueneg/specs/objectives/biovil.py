"""BioViL: InfoNCE with masked language modelling."""

from typing import Literal

from trueneg.specs.objectives.clip import Clip
from trueneg.specs.settings import OpenFraction, Positive, Sweepable


class Biovil(Clip):
    """InfoNCE in both directions plus masked language modelling (BioViL)."""

    NEEDS_POOLED = True
    MASKS_WORDS = True
    OF_TRAINING = Clip.OF_TRAINING | {"masked_words_weight", "mask_share"}

    # pydantic selects the objective by this name
    name: Literal["biovil"]  # type: ignore[assignment]
    masked_words_weight: Sweepable[Positive] = 0.1
    """weight of the cross-entropy of the masked words"""
    mask_share: OpenFraction = 0.15
    """fraction of a sentence's tokens that are masked"""

"""Image–text training: an image and a sentence of its report are positives of each other; the
sentences are the anchors.
"""

from typing import ClassVar

import torch

from trueneg.data.false_negatives import of_pairs
from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.pairs.training_split import PairData
from trueneg.data.samples import Subset, refuse_leakage
from trueneg.specs.sections import RunSettings
from trueneg.training.frozen import Frozen
from trueneg.training.pair_training import PairTraining


class ImageText(PairTraining):
    """Training on image–sentence pairs.

    Raises:
        UserError: if a patient is in two splits, or if the settings do not match the source; also
            see :class:`~trueneg.training.loop.TrainingRun`.
    """

    SHARES: ClassVar = {
        "share of own report": PairData.of_own_report,
        "share of same text": PairData.same_text,
    }
    false_negatives = staticmethod(of_pairs)

    @staticmethod
    def read_data(
        settings: RunSettings,
        source: PairSource,
        subset: Subset,
        device: torch.device,
        frozen: Frozen,
    ) -> PairData:
        refuse_leakage(source, subset)
        vectors = frozen.vectors
        if vectors is not None and settings["similarity"]["aggregation"] == "global":
            vectors = vectors[..., :1]  # regions are needed for evaluation only
        return PairData(source, subset, device, vectors)

"""Training on pairs of texts."""

from typing import ClassVar

import torch

from trueneg.config.runs import RunSettings
from trueneg.data.false_negatives import of_texts
from trueneg.data.samples import Subset, read_subsets, refuse_leakage
from trueneg.data.texts.text_source import TextSource, read_texts
from trueneg.data.texts.training_split import TextData
from trueneg.training.frozen import Frozen
from trueneg.training.pair_training import PairTraining


class TextPairs(PairTraining):
    """Training on pairs of texts.

    Raises:
        UserError: if a text is in two splits, or if the settings do not match the source; also see
            :class:`~trueneg.training.loop.TrainingRun`.
    """

    SHARES: ClassVar = {"share of same text": TextData.same_text}
    read_source = staticmethod(read_texts)
    read_subsets = staticmethod(read_subsets)
    false_negatives = staticmethod(of_texts)

    @staticmethod
    def read_data(
        settings: RunSettings,
        source: TextSource,
        subset: Subset,
        device: torch.device,
        frozen: Frozen,
    ) -> TextData:
        refuse_leakage(source, subset)
        return TextData(source, subset, settings["dataset"]["positives"], device)

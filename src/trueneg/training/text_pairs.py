"""Training on pairs of texts."""

from typing import Any, ClassVar

import numpy as np
import torch

from trueneg.config.runs import MINER
from trueneg.data.false_negatives import of_texts
from trueneg.data.samples import Subset, refuse_leakage
from trueneg.data.texts.hard_negatives import HardNegatives
from trueneg.data.texts.text_source import TextSource
from trueneg.data.texts.training_split import TextData
from trueneg.specs.sections import RunSettings
from trueneg.training.frozen import Frozen
from trueneg.training.pair_training import PairTraining


class TextPairs(PairTraining):
    """Training on pairs of texts.

    Raises:
        UserError: if a text is in two splits, or if the settings do not match the source; also see
            :class:`~trueneg.training.loop.TrainingRun`.
    """

    SHARES: ClassVar = {"share of same text": TextData.same_text}
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
        data = TextData(source, subset, settings["dataset"]["positives"], device)
        if (wanted := settings["objective"].get("hard_negatives")) is not None:
            stored: Any = frozen.stored.get(MINER) or frozen.texts
            places = [frozen.rows[text] for text in data.sentences]
            vectors = np.asarray(stored.values)[places, 0, :, 0]
            labels = data.class_of.cpu().numpy()
            mined = frozen.mined[subset.seed]
            data.hard_negatives = HardNegatives(
                wanted, mined, data.rows, vectors, labels, data.given
            )
        return data

    def measured(self) -> dict[str, float]:
        drawn = self.data.hard_negatives
        return super().measured() | ({} if drawn is None else drawn.measured)

"""Training on pairs of texts."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from trueneg.data.false_negatives import of_texts
from trueneg.data.samples import Subset, read_subsets, refuse_leakage
from trueneg.data.texts.hard_negatives import HardNegatives
from trueneg.data.texts.text_source import TextSource, read_texts
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
        positives = settings["dataset"]["positives"]
        return TextData(source, subset, positives, device, _mined(settings, source, subset, frozen))

    def measured(self) -> dict[str, float]:
        drawn = self.data.hard_negatives
        return super().measured() | ({} if drawn is None else drawn.measured)


def _mined(
    settings: RunSettings, source: TextSource, subset: Subset, frozen: Frozen
) -> Callable[[ndarray, ndarray, Tensor | None], HardNegatives] | None:
    """Return what makes the run's hard negatives; None: it mines none."""
    wanted = settings["objective"].get("hard_negatives")
    if wanted is None:
        return None
    stored: Any = frozen.miner or frozen.texts
    texts = source.sentences["sentence"]

    def of_rows(rows: ndarray, labels: ndarray, given: Tensor | None) -> HardNegatives:
        places = [frozen.rows[text] for text in texts.iloc[rows]]
        vectors = np.asarray(stored.values)[places, 0, :, 0]
        return HardNegatives(wanted, frozen.mined[subset.seed], rows, vectors, labels, given)

    return of_rows

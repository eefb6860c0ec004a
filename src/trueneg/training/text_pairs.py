"""Training on pairs of texts with any objective."""

from collections.abc import Generator
from typing import Any, NamedTuple

from torch import Tensor, nn

from trueneg.data.false_negatives import of_texts
from trueneg.data.pairs.training_split import PairIndices
from trueneg.data.samples import Subset, read_subsets, refuse_leakage
from trueneg.data.texts.text_source import TextSource, read_texts
from trueneg.data.texts.training_split import TextData
from trueneg.models.region_similarity import ImageEmbeddings
from trueneg.runtime.precision import autocast
from trueneg.training.frozen import Frozen
from trueneg.training.image_text import ReleasedNetworks
from trueneg.training.loop import Settings
from trueneg.training.pair_training import PairTraining, share_of_negatives
from trueneg.training.text_inputs import text_inputs
from trueneg.training.text_networks import (
    ANCHORS,
    POSITIVES,
    TextNetworks,
    build_text_networks,
    finished_tensors,
)


class TextInputs(NamedTuple):
    """What a process encodes of a batch: inputs of the tower for its anchors, and for the columns
    of each of them in turn.
    """

    anchors: dict[str, Any]
    columns: dict[str, Any]


class TextPairs(PairTraining):
    """Training on pairs of texts; in the terms of image–text training, anchors are texts, and their
    positives images.

    Raises:
        UserError: if a text is in two splits, or if the settings do not match the source; also see
            :class:`~trueneg.training.loop.TrainingRun`.
    """

    SAMPLE_KEY, TEXT_COLUMNS = "sentences", "images"
    read_source, read_subsets = staticmethod(read_texts), staticmethod(read_subsets)
    false_negatives = staticmethod(of_texts)

    def set_up(self, settings: Settings, source: TextSource, subset: Subset) -> int:
        refuse_leakage(source, subset)
        self.data = TextData(source, subset, settings["dataset"]["positives"], self.device)
        self.networks = build_text_networks(settings, self.frozen)
        self.model = self.networks.model.to(self.device)
        self.tokens = []
        for section in (ANCHORS, POSITIVES):
            side, shown = self.networks.side(section), section if section in settings else ANCHORS
            truncate = side.settings[ANCHORS].get("truncate", True)
            self.tokens.append(text_inputs(side, self.data.texts, truncate, self.device, shown))
        self.set_up_objective(settings, nn.ModuleDict({"model": self.model}))
        return self.data.samples

    def batches(self, count: int) -> Generator[tuple[PairIndices, TextInputs], None, None]:
        """Yield the pairs of each whole batch, and this process's share of their texts."""
        size = self.batch_size
        drawn = self.data.epoch("", self.generator("pairs"))
        parts = [drawn.part(slice(start, start + size)) for start in range(0, count * size, size)]
        pairs = [
            PairIndices(part.images.T.flatten().to(self.device), part.sentences.to(self.device))
            for part in parts
        ]
        self.share_of_same_text = share_of_negatives(map(self.data.same_text, pairs))
        for update in range(self.update, count):
            shares = [
                self.data.text_numbers[self.processes.part(each)].flatten()
                for each in reversed(parts[update])
            ]
            inputs = TextInputs(
                *(
                    tokens.batch(numbers)
                    for tokens, numbers in zip(self.tokens, shares, strict=True)
                )
            )
            yield pairs[update], inputs

    def _embed(self, inputs: TextInputs, model: Any) -> tuple[Tensor, ImageEmbeddings]:
        """Embed this process's share of a batch, and return the embeddings of the whole batch:
        anchors (B, D), and columns.
        """
        self.seed_dropout()
        with autocast(self.device):
            anchors, columns = model.anchors(**inputs.anchors), model.positives(**inputs.columns)
        # by anchor, as processes have whole anchors
        columns = columns.float().unflatten(0, (len(anchors), -1))
        anchors, columns = self.processes.whole(anchors.float()), self.processes.whole(columns)
        return anchors, ImageEmbeddings(columns.transpose(0, 1).flatten(0, 1), None)

    def measured(self) -> dict[str, float]:
        """Return the logit scale, the share of negatives with the same text, before any are left
        out, and any threshold.
        """
        measured = {
            "logit_scale": self.model.logit_scale().item(),
            "share of same text": self.share_of_same_text.item(),
        }
        return measured | ({} if self.guide is None else self.guide.measured())

    def weights(self) -> dict[str, Tensor]:
        """Return the tensors, on the CPU, that
        :func:`trueneg.training.text_networks.read_text_networks` restores.
        """
        return finished_tensors(self.networks)


class UntrainedTowers(ReleasedNetworks):
    """A run that evaluates the towers of a text study without training; the source is only
    checked.
    """

    finished_tensors = staticmethod(finished_tensors)

    @staticmethod
    def build(
        settings: Settings, source: TextSource, subset: Subset, frozen: Frozen
    ) -> TextNetworks:
        refuse_leakage(source, subset)
        return build_text_networks(settings, frozen)

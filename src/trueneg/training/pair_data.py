"""A run's training images and sentences, and which of them an epoch pairs."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from trueneg.data.pairs.pair_source import PROBABILITY_COLUMNS, PairSource
from trueneg.data.pairs.pair_splits import PairSubset
from trueneg.training.image_loading import TrainingImages


class Pairs(NamedTuple):
    """B pairs of an image and a sentence of its report, on the training's device.

    Attributes:
        images: (B,) int64, numbers of training images.
        sentences: (B,) int64, numbers of training sentences.
    """

    images: Tensor
    sentences: Tensor

    def part(self, chosen: slice) -> "Pairs":
        """Some of them."""
        return Pairs(self.images[chosen], self.sentences[chosen])


class PairData:
    """The training part of a source: n images of R reports with S sentences, of which U are different.

    Args:
        source: images and sentences.
        subset: its ``train`` is what is held.
        device: where the tensors lie, and batches of images are wanted.

    Attributes:
        texts: the U different sentences.
        images: the n images.
        labels: (n, K): 1, 0, NaN.
        shown: bool (n, C), as in :class:`~trueneg.data.pairs.pair_source.PairSource`.
        text_of: (S,) which of the texts a sentence is; on the CPU as ``text_numbers`` too.
        class_of: (S,) latent class, −1 where it is unknown.
        said: (n, L) the texts of each image's report, padded with −1.
        groups: (S,) 0: of a common class, 1: of a rare one, 2: of an unknown one. The common classes are the most frequent ones
            that together hold half of the sentences of known class.
    """

    def __init__(self, source: PairSource, subset: PairSubset, device: torch.device):
        self._device = device
        reports = source.reports[subset.train]
        names, report_of = np.unique(reports, return_inverse=True)
        table = source.sentences[source.sentences["report"].isin(names)]
        owner = np.searchsorted(names, table["report"].to_numpy().astype(names.dtype))
        order = np.lexsort((table["index"].to_numpy(), owner))
        self._table, owner = table.iloc[order], owner[order]
        self._sentences = _Members(np.arange(len(owner)), np.bincount(owner, minlength=len(names)))
        self._images_of = _Members(np.argsort(report_of, kind="stable"), np.bincount(report_of, minlength=len(names)))
        self._report_of = torch.from_numpy(report_of)
        text_of, texts = pd.factorize(self._table["sentence"], sort=True)
        self.texts = texts.tolist()
        self.text_numbers = torch.from_numpy(text_of)
        self.text_of = self.text_numbers.to(device)
        classes = self._table["class"].to_numpy(np.int64).copy()  # pandas lends it read-only
        self.class_of = torch.from_numpy(classes).to(device)
        self.groups = torch.from_numpy(_frequency_groups(classes)).to(device)
        self.images = TrainingImages(source.images, subset.train, device)
        self.labels = torch.from_numpy(source.labels[subset.train]).to(device)
        self.shown = torch.from_numpy(source.shown[subset.train]).to(device)
        of_reports = self.text_numbers.split(self._sentences.counts.tolist())
        self.said = pad_sequence(of_reports, batch_first=True, padding_value=-1)[self._report_of].to(device)

    @property
    def sentences(self) -> list[str]:
        """The S sentences, as often as they occur."""
        return self._table["sentence"].tolist()

    def units(self, unit: str) -> int:
        """How many pairs an epoch has."""
        return len(self.images) if unit == "image" else len(self._images_of.counts)

    def epoch(self, unit: str, generator: torch.Generator) -> Pairs:
        """One pair for each image, or for each study (a report with its images), in a random order; on the CPU.

        Args:
            unit: ``"image"``: every image once, with a sentence of its report (Sample-Specific Debiasing); ``"study"``: every
                report once, with one of its images and one of its sentences (ReCo).
            generator: of all draws.
        """
        order = torch.randperm(self.units(unit), generator=generator)
        which = torch.rand(len(order), 2, generator=generator, dtype=torch.float64)
        if unit == "image":
            images, reports = order, self._report_of[order]
        else:
            images, reports = self._images_of.pick(order, which[:, 0]), order
        return Pairs(images, self._sentences.pick(reports, which[:, 1]))

    def class_probability(self, name: str) -> Tensor:
        """(S,) float32: a class probability η of every sentence, by its name in a config."""
        values = self._table[PROBABILITY_COLUMNS[name]].to_numpy(np.float32)
        return torch.from_numpy(values.copy()).to(self._device)


class _Members:
    """The members of each of R groups, as one row."""

    def __init__(self, members: np.ndarray, counts: np.ndarray):
        self._members = torch.from_numpy(members)
        self.counts = torch.from_numpy(counts)
        self._starts = torch.cumsum(self.counts, 0) - self.counts

    def pick(self, groups: Tensor, uniform: Tensor) -> Tensor:
        """One member of each of some groups, from uniform draws in [0, 1)."""
        return self._members[self._starts[groups] + (uniform * self.counts[groups]).long()]


def _frequency_groups(classes: np.ndarray) -> np.ndarray:
    """0 common, 1 rare, 2 unknown, of every sentence."""
    numbers, counts = np.unique(classes[classes >= 0], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]  # sentences of more frequent classes
    common = numbers[order][before < counts.sum() / 2]
    return np.where(classes < 0, 2, np.where(np.isin(classes, common), 0, 1))

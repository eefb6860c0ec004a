"""Training images and sentences of a run, and the pairs drawn from them in each epoch."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from pandas import DataFrame
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from trueneg.data.image_loading import TrainingImages, statistics_of
from trueneg.data.pairs.pair_source import PairSource, probability_name
from trueneg.data.samples import Subset
from trueneg.randomness import seed_for
from trueneg.text.cleaning import normalised


class PairBatch(NamedTuple):
    """Pairs of anchors and columns, by their indices among the training samples.

    Attributes:
        anchors: (B,) int64.
        columns: (B·(1 + H),) int64: the positives, then the first hard negative of every pair, then
            the second ones, and so on. Of an epoch, before :meth:`part`: (n, 1 + H).
    """

    anchors: Tensor
    columns: Tensor

    @property
    def owners(self) -> Tensor:
        """(K,) number of the anchor to which each column belongs."""
        return self._places().remainder(len(self.anchors))

    @property
    def is_hard(self) -> Tensor:
        """(K,) bool: whether each column is a hard negative."""
        return self._places() >= len(self.anchors)

    @property
    def positives(self) -> Tensor:
        """(B,) the columns of the anchors' positives."""
        return self.columns[: len(self.anchors)]

    def part(self, chosen: slice, device: torch.device) -> "PairBatch":
        """Return a slice of an epoch as a batch on a device."""
        columns = self.columns[chosen].T.flatten()
        return PairBatch(self.anchors[chosen].to(device), columns.to(device))

    def _places(self) -> Tensor:
        return torch.arange(len(self.columns), device=self.columns.device)


class Compared(NamedTuple):
    """Indices by which a guide compares the anchors with the columns.

    Attributes:
        samples: indices of training samples: images, or texts in text studies.
        texts: indices of training texts; an image has the text of its pair. None: the data have no
            texts.
    """

    samples: tuple[Tensor, Tensor]
    texts: tuple[Tensor, Tensor] | None = None


class TrainingSentences:
    """The sentences of a source's training split, in the order of a table with them."""

    def __init__(self, source: Any, table: DataFrame, seed: int, device: torch.device):
        self.source = source
        self._seed = seed
        self._device = device
        text_of, texts = pd.factorize(table["sentence"], sort=True)
        self.sentences = table["sentence"].tolist()
        self.texts = texts.tolist()
        self.text_numbers = torch.from_numpy(text_of)
        self.text_of = self.text_numbers.to(device)
        # equal for sentences that are equal after normalisation
        self._form_of = pd.Index(texts).map(normalised).factorize()[0]
        self._same = self._form_of[text_of]
        self._same_of = torch.from_numpy(self._same).to(device)
        classes = table["class"].to_numpy(np.int64).copy()  # pandas returns a read-only array
        self.class_of = torch.from_numpy(classes).to(device)
        self.groups = torch.from_numpy(frequency_groups(classes)).to(device)


class PairData(TrainingSentences):
    """A source's training split: n images from R reports with S sentences, U of them distinct.

    Args:
        source: images and sentences.
        subset: subset of the source; only its ``train`` split is used.
        device: device of the tensors and of image batches.
        vectors: stored vectors (N, …) of all images, which take their place.

    Attributes:
        source: images and sentences.
        sentences: the S sentences, including repetitions.
        texts: the U distinct sentences.
        images: the n images; ``image_rows`` are their positions in the source.
        samples: n.
        labels: (n, K) labels of the images: 1, 0, or NaN for unknown.
        shown: bool (n, C), as in :class:`~trueneg.data.pairs.pair_source.PairSource`.
        text_of: (S,) index of each sentence in ``texts``; ``text_numbers`` is a copy on the CPU.
        class_of: (S,) latent class, −1 if unknown.
        report_of: (n,) index of each image's report.
        groups: (S,) class group of each sentence: 0 common, 1 rare, 2 unknown. The common classes
            are the most frequent ones that together account for half of the sentences with a known
            class.
    """

    def __init__(
        self,
        source: PairSource,
        subset: Subset,
        device: torch.device,
        vectors: ndarray | None = None,
    ):
        reports = source.reports[subset.train]
        names, report_of = np.unique(reports, return_inverse=True)
        rows = np.flatnonzero(source.sentences["report"].isin(names))
        table = source.sentences.iloc[rows]
        owner = np.searchsorted(names, table["report"].to_numpy().astype(names.dtype))
        order = np.lexsort((table["index"].to_numpy(), owner))
        super().__init__(source, table.iloc[order], subset.seed, device)
        self._sentence_rows = rows[order]
        self.image_rows = subset.train
        self.samples = len(subset.train)
        self._sentence_counts = torch.from_numpy(np.bincount(owner, minlength=len(names)))
        self._image_counts = torch.from_numpy(np.bincount(report_of, minlength=len(names)))
        self._images_by_report = torch.from_numpy(np.argsort(report_of, kind="stable"))
        self._report_of = torch.from_numpy(report_of)
        self.images = TrainingImages(
            source.images if vectors is None else vectors, subset.train, device
        )
        self.labels = torch.from_numpy(source.labels[subset.train]).to(device)
        self.shown = torch.from_numpy(source.shown[subset.train]).to(device)
        self.report_of = self._report_of.to(device)
        self._hard = self._places_of_negatives(len(source.reports))

    def _places_of_negatives(self, images: int) -> Tensor:
        """Return (S, H) places among the training images of each sentence's hard negatives; −1:
        there is none, or it is no training image.
        """
        places = torch.full((images + 1,), -1)  # of −1, the last
        places[torch.tensor(self.image_rows)] = torch.arange(self.samples)
        return places[torch.from_numpy(self.source.negatives[self._sentence_rows])]

    @functools.cached_property
    def said(self) -> Tensor:
        """(n, L) indices of the texts in each image's report, padded with −1."""
        of_reports = self.text_numbers.split(self._sentence_counts.tolist())
        padded = pad_sequence(of_reports, batch_first=True, padding_value=-1)
        return padded[self._report_of].to(self._device)

    @functools.cached_property
    def _said_forms(self) -> Tensor:
        """(n, L) numbers of the normalised texts in each image's report, padded with −1."""
        forms = np.append(self._form_of, -1)  # of −1, the last
        return torch.from_numpy(forms).to(self._device)[self.said]

    @functools.cached_property
    def _first_sentences(self) -> Tensor:
        """(R,) the first sentence of each report."""
        return (self._sentence_counts.cumsum(0) - self._sentence_counts).to(self._device)

    @property
    def has_unused(self) -> bool:
        """Whether :meth:`unused` may mark some columns."""
        return bool(self._hard.shape[1])

    def unused(self, pairs: PairBatch) -> Tensor:
        """Return (B, K) bool: which columns are no negatives of an anchor: missing ones, and hard
        negatives of other anchors that are its own image.
        """
        is_own = pairs.is_hard & (pairs.columns == pairs.positives[:, None])
        return self.is_missing(pairs) | is_own

    def is_missing(self, pairs: PairBatch) -> Tensor:
        """Return (K,) bool: which columns stand for missing hard negatives: further ones of the own
        image.
        """
        return pairs.is_hard & (pairs.columns == pairs.columns[pairs.owners])

    @property
    def knows_matches(self) -> bool:
        """Whether it is known which sentences are true of which images."""
        return bool(self.shown.shape[1])

    @property
    def channels(self) -> int:
        """Number of image channels."""
        return self.source.images.shape[1]

    @functools.cached_property
    def statistics(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel of the images."""
        return statistics_of(self.source.images, self.image_rows)

    @property
    def class_probabilities(self) -> tuple[str, ...]:
        """The config names of the available class probabilities."""
        return self.source.class_probabilities

    @property
    def sentence_weights(self) -> Tensor:
        """Probability that a pair drawn per image has each sentence, (S,) float64 on the CPU; sums
        to 1.
        """
        return (
            self._image_counts / self._sentence_counts.double() / len(self.images)
        ).repeat_interleave(self._sentence_counts)

    def per_epoch(self, unit: str) -> int:
        """Return the number of pairs per epoch."""
        return len(self.images) if unit == "image" else len(self._image_counts)

    def epoch(self, unit: str, generator: torch.Generator) -> PairBatch:
        """Draw one pair per image, or per study (a report with its images), in random order;
        returned on the CPU.

        Args:
            unit: ``"image"``: every image once, with a sentence of its report (Sample-Specific
                Debiasing); ``"study"``: every report once, with one of its images and one of its
                sentences (ReCo).
            generator: generator for all draws.

        Returns:
            Sentences (n,), and (n, 1 + H) their images and hard negatives.
        """
        order = torch.randperm(self.per_epoch(unit), generator=generator)
        which = torch.rand(len(order), 2, generator=generator, dtype=torch.float64)
        if unit == "image":
            images = order
            reports = self._report_of[order]
        else:
            images = self._images_by_report[_member(self._image_counts, order, which[:, 0])]
            reports = order
        sentences = _member(self._sentence_counts, reports, which[:, 1])
        hard = self._hard[sentences]
        hard = torch.where(hard < 0, images[:, None], hard)
        return PairBatch(sentences, torch.cat([images[:, None], hard], dim=1))

    def compared(self, pairs: PairBatch) -> Compared:
        """Return what guides compare: images with images, and sentences with sentences; a hard
        negative has the first sentence of its report.
        """
        reports = self.report_of[pairs.columns[len(pairs.anchors) :]]
        sentences = torch.cat([pairs.anchors, self._first_sentences[reports]])
        return Compared((pairs.positives, pairs.columns), (pairs.anchors, sentences))

    def reports_with(self, pairs: PairBatch) -> Tensor:
        """Return (B, K) bool: whether the report of image j contains sentence i."""
        return (self.said[pairs.columns] == self.text_of[pairs.anchors][:, None, None]).any(2)

    def of_own_report(self, pairs: PairBatch) -> Tensor:
        """Return (B, K) bool: whether images i and j belong to the same report."""
        return self.report_of[pairs.positives][:, None] == self.report_of[pairs.columns]

    def same_text(self, pairs: PairBatch) -> Tensor:
        """Return (B, K) bool: whether sentences i and j are equal once
        :func:`~trueneg.text.cleaning.normalised`; a hard negative has all of its report's.
        """
        numbers = self._same_of[pairs.anchors]
        same = numbers[:, None] == numbers
        hard = pairs.columns[len(numbers) :]
        if not len(hard):
            return same
        return torch.cat([same, (self._said_forms[hard] == numbers[:, None, None]).any(2)], 1)

    known_positives = same_text

    def matches(self, pairs: PairBatch) -> tuple[Tensor, Tensor]:
        """Return (B, K) bools: whether sentence i is true of image j, and whether it is known."""
        classes = self.class_of[pairs.anchors]
        shown = self.shown[pairs.columns][:, classes.clamp(min=0)].T
        return shown, (classes >= 0)[:, None].expand_as(shown)

    def class_probability(
        self, name: str | Mapping[str, float], a: float | None = None, k: float | None = None
    ) -> Tensor:
        """Return η of every sentence, (S,) float32, as :meth:`PairSource.class_probability` does.

        With ``{"true_share": s}``, each sentence keeps its true η with probability s; the values of
        the others are permuted. So all s have the same values, and a sentence that keeps its η at
        some s keeps it at every larger one.
        """
        values = self.source.class_probability(probability_name(name), a, k)
        own = values[self._sentence_rows].astype(np.float32)
        return torch.from_numpy(partly_exchanged(own, name, self._seed)).to(self._device)


def _member(counts: Tensor, groups: Tensor, uniform: Tensor) -> Tensor:
    """Pick one member of each given group, using uniform draws in [0, 1); members are numbered
    group by group.
    """
    return (counts.cumsum(0) - counts)[groups] + (uniform * counts[groups]).long()


def partly_exchanged(values: ndarray, name: str | Mapping[str, float], seed: int) -> ndarray:
    """Return η of every sentence, where those without their true value exchange theirs; all of them
    unless a share is named.
    """
    if isinstance(name, str):
        return values
    generator = np.random.default_rng(seed_for(seed, "exchanged class probabilities"))
    exchanged = np.flatnonzero(generator.random(len(values)) >= name["true_share"])
    values[exchanged] = values[generator.permutation(exchanged)]
    return values


def frequency_groups(classes: ndarray) -> ndarray:
    """Return the class group of every sentence: 0 common, 1 rare, 2 unknown."""
    numbers, counts = np.unique(classes[classes >= 0], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]  # sentences of more frequent classes
    common = numbers[order][before < counts.sum() / 2]
    return np.where(classes < 0, 2, np.where(np.isin(classes, common), 0, 1))

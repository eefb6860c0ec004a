"""The training split of a text source, with the draws of each epoch."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from torch import Tensor

from trueneg.class_probability import from_class_frequency
from trueneg.data.pairs.pair_source import probability_name
from trueneg.data.pairs.training_split import (
    Compared,
    PairBatch,
    TrainingSentences,
    partly_exchanged,
)
from trueneg.data.samples import Subset
from trueneg.data.texts.hard_negatives import HardNegatives
from trueneg.data.texts.text_source import TextSource


class TextData(TrainingSentences):
    """A source's training split: n samples of T texts; a sample is a given pair, or a text whose
    positive is drawn.

    Args:
        source: texts.
        subset: subset of the source; only its ``train`` split is used.
        positives: ``"given"``, ``"same_label"`` or ``"dropout"``.
        device: device of the tensors.

    Attributes:
        source: texts.
        samples: T.
        sentences: the T training texts, including repetitions; ``rows`` are their positions in the
            source's sentences.
        texts: the distinct ones.
        text_of: (T,) index in ``texts``; ``text_numbers`` is a copy on the CPU.
        class_of: (T,) label of each text, −1 if there is none. Only objectives that declare labels
            may read it.
        groups: (T,) class group of each text: 0 common, 1 rare, 2 unknown.
        labels: the same as ``class_of``, for guides that compare labels.
        given: (P, 2) places of given pairs among these texts; None: positives are drawn.
        hard_negatives: draws mined hard negatives, and is set by the run that mines some; None:
            they are those of given pairs, if any.
    """

    def __init__(
        self,
        source: TextSource,
        subset: Subset,
        positives: str,
        device: torch.device,
    ):
        drawn = source.rows[subset.train]
        self._several = source.matching.shape[1] - 1  # positives to draw from
        if positives != "given":
            drawn = np.delete(drawn, np.s_[1 : 1 + self._several], axis=1)
            self._several = 0
        rows, places = np.unique(drawn, return_inverse=True)
        self.rows = rows
        self.samples = len(rows)
        self._drawn = torch.from_numpy(places.reshape(drawn.shape))
        table = source.sentences.iloc[rows]
        super().__init__(source, table, subset.seed, device)
        self.labels = self.class_of
        same = pd.factorize(self._same)[0]  # in order of first appearance, which decides the draws
        classes = table["class"].to_numpy(np.int64)
        self._partners = _Partners(classes, same) if positives == "same_label" else None
        pairs = [self._drawn[:, [0, 1 + place]] for place in range(self._several)]
        self.given = torch.cat(pairs) if pairs else None
        self._known = None if self.given is None else self._pairs_of_several(self._same[self.given])
        self.hard_negatives: HardNegatives | None = None
        hard = self._drawn[:, 1 + self._several :]
        self._lacks_given = bool((hard == self._drawn[:, :1]).any())

    @property
    def knows_matches(self) -> bool:
        """Whether it is known which texts share a class."""
        return bool(self.source.label_names)

    @property
    def has_unused(self) -> bool:
        """Whether :meth:`unused` may mark some columns."""
        return self._lacks_given or self.hard_negatives is not None

    def is_missing(self, pairs: PairBatch) -> Tensor:
        """Return (K,) bool: which columns stand for missing hard negatives: the anchor's text."""
        return pairs.is_hard & (pairs.columns == pairs.anchors[pairs.owners])

    def unused(self, pairs: PairBatch) -> Tensor:
        """Return (B, K) bool: :meth:`is_missing`, for each anchor."""
        return self.is_missing(pairs).expand(len(pairs.anchors), -1)

    @property
    def class_probabilities(self) -> tuple[str, ...]:
        """The config names of the available class probabilities; with labels, ``true`` is the
        frequency of a text's label.
        """
        return (*self.source.class_probabilities, *(("true",) if self.knows_matches else ()))

    def per_epoch(self, unit: str = "") -> int:
        """Return the number of pairs per epoch: every sample is an anchor once."""
        return len(self._drawn)

    def epoch(self, unit: str, generator: torch.Generator) -> PairBatch:
        """Draw every sample once, with one of its positives, in random order; returned on the CPU.

        Args:
            unit: not used; there is one kind of epoch.
            generator: generator for all draws.

        Returns:
            Anchors (n,), and (n, 1 + H) their positives and hard negatives.
        """
        order = self._drawn[torch.randperm(len(self._drawn), generator=generator)]
        anchors = order[:, 0]
        positives = order[:, min(self._several, 1)]
        hard = order[:, 1 + self._several :]
        if self._partners is not None or self._several > 1:
            uniform = torch.rand(len(order), generator=generator, dtype=torch.float64)
            positives = self._positives(order, uniform)
        if self.hard_negatives is not None:
            hard = self.hard_negatives.draw(anchors, positives, generator)
        return PairBatch(anchors, torch.cat([positives[:, None], hard], dim=1))

    def _positives(self, samples: Tensor, uniform: Tensor) -> Tensor:
        """Return a text with the label of each sample's anchor, or one of its own positives, (n,),
        from uniform draws in [0, 1).
        """
        if self._partners is not None:
            return self._partners.draw(samples[:, 0], uniform)
        own = samples[:, 1 : 1 + self._several]
        different = 1 + (own != own[:, :1]).sum(1)
        return own.gather(1, (uniform * different).long()[:, None])[:, 0]

    def compared(self, pairs: PairBatch) -> Compared:
        """Return what guides compare: anchors with columns."""
        anchors, columns = pairs
        return Compared((anchors, columns), (anchors, columns))

    def same_text(self, pairs: PairBatch) -> Tensor:
        """Return (B, B + H) bool: whether column j is a text of pair i, or its pair has the anchor
        of i, after normalisation.
        """
        anchors = self._same_of[pairs.anchors]
        columns = self._same_of[pairs.columns]
        own = anchors[:, None]
        count = len(anchors)
        same = (columns == own) | (columns == columns[:count, None])
        same[:, :count] |= anchors == own
        return same

    def known_positives(self, pairs: PairBatch) -> Tensor:
        """Return :meth:`same_text`, and whether column j and the anchor of i are a given pair."""
        same = self.same_text(pairs)
        if self._known is None:
            return same
        anchors = self._same_of[pairs.anchors]
        codes = anchors[:, None] * self.samples + self._same_of[pairs.columns]
        places = torch.searchsorted(self._known, codes).clamp(max=len(self._known) - 1)
        return same | (self._known[places] == codes)

    def _pairs_of_several(self, pairs: ndarray) -> Tensor | None:
        """Return the sorted codes of pairs of texts (n, 2), in both orders; None if no text is in
        two different pairs.
        """
        first, second = pairs.T
        codes = np.unique([first * self.samples + second, second * self.samples + first])
        is_single = len(np.unique(codes // self.samples)) == len(codes)
        return None if is_single else torch.from_numpy(codes).to(self._device)

    reports_with = same_text  # a sample consists of its text alone

    def matches(self, pairs: PairBatch) -> tuple[Tensor, Tensor]:
        """Return (B, B + H) bools: whether anchor i and column j have the same label, and whether
        both have one.
        """
        anchors = self.class_of[pairs.anchors][:, None]
        columns = self.class_of[pairs.columns]
        labelled = (anchors >= 0) & (columns >= 0)
        return (anchors == columns) & labelled, labelled

    def class_probability(
        self, name: str | Mapping[str, float], a: float | None = None, k: float | None = None
    ) -> Tensor:
        """Return η of every training text, (T,) float32; NaN for those that are not anchors.

        ``true`` is the frequency of its label among the samples that the run is trained on; for
        ``{"true_share": s}`` see
        :meth:`~trueneg.data.pairs.training_split.PairData.class_probability`.
        """
        anchors = self._drawn[:, 0]
        if probability_name(name) == "true":
            values = np.asarray(from_class_frequency(self.class_of.cpu().numpy()[anchors]))
        else:
            values = self.source.class_probability(probability_name(name), a, k)
            values = values[self.rows[anchors]]
        # of texts that are not anchors
        eta = torch.full((len(self.sentences),), math.nan, dtype=torch.float32)
        eta[anchors] = torch.from_numpy(
            partly_exchanged(values.astype(np.float32), name, self._seed)
        )
        return eta.to(self._device)


class _Partners:
    """Draws for each text another text with its label, different after normalisation, all with
    equal probability.

    Args:
        classes: (T,) label of each text.
        same: (T,) number of each normalised text.
    """

    def __init__(self, classes: ndarray, same: ndarray):
        order = np.lexsort((same, classes))
        self._order = torch.from_numpy(order)
        self._place = torch.from_numpy(np.argsort(order))
        self._label = _blocks(classes[order])
        self._text = _blocks(classes[order] * (same.max() + 1) + same[order])

    def draw(self, anchors: Tensor, uniform: Tensor) -> Tensor:
        """Return the partner of each text, (n,), from uniform draws in [0, 1)."""
        places = self._place[anchors]
        (first, size), (own, copies) = (
            tuple(part[places] for part in blocks) for blocks in (self._label, self._text)
        )
        drawn = first + (uniform * (size - copies)).long()
        return self._order[drawn + torch.where(drawn >= own, copies, 0)]


def _blocks(values: ndarray) -> tuple[Tensor, Tensor]:
    """Return start and size of the block of equal values that each position of a sorted array
    belongs to.
    """
    starts = np.searchsorted(values, values)
    sizes = np.searchsorted(values, values, side="right") - starts
    return torch.from_numpy(starts), torch.from_numpy(sizes)

"""The input of text training: texts, their labels, and their positives and hard negatives if they
are given.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.arrays import content_hash
from trueneg.data.near_duplicates import Looks, looks_of_texts
from trueneg.data.samples import Samples
from trueneg.data.scored_sentences import (
    ScoredSentences,
    update_with_texts,
    write_source,
)
from trueneg.text.cleaning import normalised, same_form

RATED = {"first": "int64", "second": "int64", "score": "float64"}


@dataclass(frozen=True, eq=False)
class TextSource(ScoredSentences):
    """Texts, their labels and pairs; R rows of texts, P anchors with Q positives and H hard
    negatives, C labels.

    A *sample* is an anchor with its positives and hard negatives or, without any, a text. One of
    several positives is drawn in training, and one of the same label if Q is 0.

    Args:
        name: name of the source, such as ``"clinc150"``.
        sentences: R rows: ``sentence`` (the text, with single spaces), ``class`` (number of its
            label; −1: none), ``split`` (``train``, ``validation`` or ``test``: official; empty: to
            be drawn; ``rated``: only in rated pairs; ``corpus``: only searched in retrieval), and
            optionally ``group`` (what two splits never share, such as an author) and the columns of
            :class:`~trueneg.data.pairs.pair_source.PairSource` with class probabilities η and
            likelihoods, NaN for texts that no run is trained on.
        pairs: int64, shape (P, 1 + Q + H): rows of anchor, positives and hard negatives; P = 0:
            there are none. The first positive stands for missing ones, and the anchor for missing
            hard negatives.
        label_names: C distinct names, sorted.
        positives: Q.
        rated: rated pairs: ``first``, ``second`` (rows) and ``score``.
        restricted: whether the texts are confidential: never shown, and stored in files that only
            their owner can read.
        skipped: a sentence about the rows left out, by kind; empty if none.
        language_model: the language model that embeds the texts: its ``folder`` (or hub name),
            ``revision`` and ``checksum``.

    Attributes:
        checksum: hexadecimal SHA-256 of everything except the class probabilities and the language
            model.

    Example:
        >>> sentences = pd.DataFrame(
        ...     {"sentence": ["Lost card", "lost card!", "Top up"], "class": [1, 1, 0], "split": ""}
        ... )
        >>> source = TextSource("cards", sentences, np.empty((0, 2), np.int64), ("payment", "card"))
        >>> source.labels.tolist(), source.text_numbers.tolist()
        ([1, 1, 0], [[0], [0], [1]])
    """

    ARRAYS = ("pairs", "rated", "positives")
    CONTENT = "a source of texts"

    name: str
    sentences: DataFrame
    pairs: ndarray
    label_names: tuple[str, ...]
    rated: DataFrame = field(default_factory=lambda: DataFrame(columns=list(RATED)))
    restricted: bool = False
    skipped: str = ""
    language_model: Mapping[str, Any] | None = None
    positives: int = 1
    checksum: str = field(init=False)

    def __post_init__(self):
        # in a file, an array
        object.__setattr__(self, "rated", DataFrame(self.rated, columns=list(RATED)).astype(RATED))
        object.__setattr__(self, "positives", int(self.positives))
        digest = content_hash(
            self.pairs, self.sentences["class"].to_numpy(np.int64), self.rated.to_numpy(np.float64)
        )
        update_with_texts(
            digest, self.label_names, self.sentences["sentence"], self.sentences["split"]
        )
        if "group" in self.sentences:
            update_with_texts(digest, self.sentences["group"].fillna(""))
        if self.positives != 1:
            update_with_texts(digest, [self.positives])
        object.__setattr__(self, "checksum", digest.hexdigest())

    @property
    def summary(self) -> str:
        """What it contains, for messages."""
        labels = f" with {len(self.label_names)} labels" if self.label_names else ""
        return f"{len(self.sentences):,} texts{labels}"

    @functools.cached_property
    def anchors(self) -> ndarray:
        """Row of each sample's anchor, (n,) int64."""
        return self.rows[:, 0]

    @functools.cached_property
    def rows(self) -> ndarray:
        """Rows of each sample's texts, (n, 1 + Q + H) int64, or (n, 1) without pairs."""
        if len(self.pairs):
            return self.pairs
        return np.flatnonzero(self.sentences["split"] != "rated")[:, None]

    @property
    def matching(self) -> ndarray:
        """Rows of each sample's anchor and positives, (n, 1 + Q) int64, or (n, 1) without pairs."""
        return self.rows[:, : 1 + self.positives]

    @property
    def has_positives(self) -> bool:
        """Whether the samples have positives of their own."""
        return self.matching.shape[1] > 1

    @functools.cached_property
    def corpus(self) -> ndarray:
        """Rows of the texts that retrieval searches beside the positives."""
        return np.flatnonzero(self.sentences["split"] == "corpus")

    @functools.cached_property
    def labels(self) -> ndarray:
        """Class of each sample's anchor, (n,) int64; −1 without labels."""
        return self.sentences["class"].to_numpy(np.int64)[self.anchors]

    @functools.cached_property
    def numbers(self) -> ndarray:
        """Number of each row's text, (R,) int64; texts equal when normalised share one."""
        return pd.factorize(self.sentences["sentence"].map(normalised))[0]

    @functools.cached_property
    def text_numbers(self) -> ndarray:
        """Numbers of each sample's anchor and positives, of the shape of :attr:`matching`."""
        return self.numbers[self.matching]

    @functools.cached_property
    def samples(self) -> Samples:
        """The samples, with their anchor and positives: only training uses hard negatives."""
        split = self.sentences["split"].to_numpy(object)[self.anchors]
        sentences = self.sentences["sentence"]
        used, places = np.unique(self.matching, return_inverse=True)
        rows = np.concatenate([used, self.rated[["first", "second"]].to_numpy(np.int64).ravel()])
        forms = pd.factorize(sentences.iloc[rows].map(same_form))[0]
        groups = {"texts": forms[places.reshape(self.matching.shape)]}
        rated = forms[len(used) :].reshape(-1, 2)
        if "group" in self.sentences:
            groups["groups"] = pd.factorize(self.sentences["group"])[0][self.anchors]
        names = sentences.to_numpy(object)[self.anchors]
        return Samples(
            self.name, self.checksum, split, self.labels, groups, self.restricted, names, rated
        )

    def looks(self) -> Looks:
        """By what near duplicates among the anchors and positives are recognised."""
        numbers = self.text_numbers
        _, first, rows = np.unique(numbers, return_index=True, return_inverse=True)
        texts = self.sentences["sentence"].to_numpy(object)[self.matching.ravel()[first]]
        return looks_of_texts(texts.tolist(), rows.reshape(numbers.shape))


write_texts = write_source
read_texts = TextSource.read

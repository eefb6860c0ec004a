"""The input of image–text training: images, the sentences of their reports, and annotations of
both.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray

from trueneg.data.arrays import content_hash, require_types, size_of
from trueneg.data.leakage import numbered
from trueneg.data.near_duplicates import Looks, looks_of_images
from trueneg.data.samples import Samples
from trueneg.data.scored_sentences import (
    PROBABILITY_COLUMNS,
    ScoredSentences,
    update_with_texts,
    write_source,
)

SENTENCE_COLUMNS = ("report", "index", "sentence", "class")


@dataclass(frozen=True, eq=False)
class PairSource(ScoredSentences):
    """Images, the sentences of their reports, and labels; n images, K labels, C latent classes of
    sentences.

    Args:
        name: name of the source, such as ``"phantom"``.
        images: uint8, shape (n, channels, H, W), with 1 or 3 channels; :func:`read_pairs`
            memory-maps them.
        reports: str, shape (n,): id of each image's report. Images of one study share it.
        patients: str, shape (n,).
        sentences: one row per sentence: ``report``, ``index`` (its position in the report),
            ``sentence``, ``class`` (latent class, −1 if unknown), and any of the class
            probabilities η in [0, 1): ``eta``, ``eta permuted``, ``eta constant``, ``eta by
            length``, ``eta true``; with the first four, the likelihoods that they are made of.
        labels: float32, shape (n, K): 1, 0, or NaN for unknown.
        label_names: K distinct names.
        shown: bool, shape (n, C): whether a sentence of class c is true of image i. This is the
            only record of which images are false negatives for a sentence
            (:mod:`trueneg.data.pairs.statements`). C = 0 if classes are unknown.
        restricted: whether images and text are confidential: never shown, and stored in files that
            only their owner can read.
        skipped: a sentence about the rows and images left out, by kind; empty if none.
        language_model: the language model that embeds the sentences: its ``folder`` (or hub name),
            ``revision`` and ``checksum``.
        own_splits: str, shape (n,): the split of each image in the user's own table; without such
            splits, of shape (0,). Published splits are those of their data set.

        negatives: int64, shape (S, H): images that are hard negatives of each of the S sentences;
            −1: it has fewer than H. None: there are none, as with shape (S, 0).

    Attributes:
        checksum: hexadecimal SHA-256 of everything except the class probabilities and the language
            model, so runs that do not use them stay valid if the language model changes.

    Raises:
        ValueError: if an array has an unexpected type or shape, an image has no sentence, or a
            class or class probability is missing or invalid.

    Example:
        >>> sentences = pd.DataFrame(
        ...     {
        ...         "report": ["a", "a"],
        ...         "index": [0, 1],
        ...         "sentence": ["No edema.", "Hello."],
        ...         "class": -1,
        ...     }
        ... )
        >>> arrays = {
        ...     "reports": np.array(["a"]),
        ...     "patients": np.array(["p"]),
        ...     "labels": np.array([[0.0]], np.float32),
        ... }
        >>> black = np.zeros((1, 1, 8, 8), np.uint8)
        >>> PairSource(
        ...     "black",
        ...     black,
        ...     **arrays,
        ...     sentences=sentences,
        ...     label_names=("edema",),
        ...     shown=np.zeros((1, 0), bool),
        ... ).size
        (8, 8)
    """

    ARRAYS = ("images", "reports", "patients", "labels", "shown", "own_splits", "negatives")
    CONTENT = "a source of images and sentences"
    MAPPED = "images"

    name: str
    images: ndarray
    reports: ndarray
    patients: ndarray
    sentences: pd.DataFrame
    labels: ndarray
    label_names: tuple[str, ...]
    shown: ndarray
    restricted: bool = False
    skipped: str = ""
    language_model: Mapping[str, Any] | None = None
    own_splits: ndarray = field(default_factory=lambda: np.empty(0, str))
    negatives: Any = None  # an array once the source exists
    checksum: str = field(init=False)

    def __post_init__(self):
        expected = {
            "images": ("uint8", 4),
            "reports": ("str", 1),
            "patients": ("str", 1),
            "labels": ("float32", 2),
            "shown": ("bool", 2),
        }
        require_types(self, expected)
        if self.negatives is None:
            object.__setattr__(self, "negatives", np.empty((len(self.sentences), 0), np.int64))
        for problem in _problems(self):
            raise ValueError(problem)
        digest = content_hash(self.images, self.labels, self.shown)
        update_with_texts(digest, self.label_names, self.reports, self.patients)
        for column in SENTENCE_COLUMNS:
            update_with_texts(digest, self.sentences[column])
        if len(self.own_splits):
            update_with_texts(digest, self.own_splits)
        if self.negatives.size:
            digest.update(content_hash(self.negatives).digest())
        object.__setattr__(self, "checksum", digest.hexdigest())

    @property
    def summary(self) -> str:
        """What it contains, for messages."""
        images = f"{len(self.images):,} images{size_of(self.images)}"
        return f"{images} with {len(self.sentences):,} sentences"

    @property
    def size(self) -> tuple[int, int]:
        """Return the height and width of the images."""
        return self.images.shape[2:]

    @functools.cached_property
    def samples(self) -> Samples:
        """The images with their contents, patients and reports; a table has the official splits."""
        split = np.full(len(self.images), "")
        return Samples(
            self.name,
            self.checksum,
            split,
            np.full(len(self.images), -1),
            {
                "patients": self.patients,
                "reports": self.reports,
                "images": numbered(self.images),
            },
            self.restricted,
            self.reports,
        )

    def looks(self) -> Looks:
        """By what near duplicates among the images are recognised."""
        return looks_of_images(self.images, self.reports)


def distinct_texts(source: ScoredSentences) -> list[str]:
    """Return each text of a source once, in alphabetical order: the rows of a frozen text tower's
    vectors.
    """
    return sorted(set(source.sentences["sentence"]))


def probability_name(setting: str | Mapping[str, float]) -> str:
    """Return the class probability that a setting draws from: its name, or ``true`` if only a share
    of the sentences has it.
    """
    return setting if isinstance(setting, str) else "true"


def join_sentences(
    sentences: pd.DataFrame,
    *,
    assigned: pd.DataFrame | None = None,
    classes: pd.DataFrame | None = None,
    eta: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Join the tables written by the text steps into the sentence table of a :class:`PairSource`.

    Args:
        sentences: table with ``report``, ``index``, ``sentence``.
        assigned: table with ``report``, ``index``, ``class``; None: classes are unknown.
        classes: table with ``class``, ``image_probability`` (the probability that a sentence of the
            class is true of a random image; NaN for sentences that say nothing about images);
            source of ``eta true``.
        eta: table with ``report``, ``index``, and the columns written by
            :func:`trueneg.text.eta.write_class_probabilities`.

    Raises:
        ValueError: if a table contains a sentence twice. Missing values become NaN, which
            :class:`PairSource` refuses.

    Example:
        >>> sentences = pd.DataFrame(
        ...     {"report": ["a", "b"], "index": [0, 0], "sentence": ["No edema.", "Hello."]}
        ... )
        >>> assigned = sentences[["report", "index"]].assign(**{"class": [0, 1]})
        >>> classes = pd.DataFrame({"class": [0, 1], "image_probability": [0.75, np.nan]})
        >>> join_sentences(sentences, assigned=assigned, classes=classes)["eta true"].tolist()
        [0.75, 0.0]
    """
    joined = sentences[["report", "index", "sentence"]].reset_index(drop=True)
    for table in (assigned, eta):
        if table is not None:
            joined = joined.merge(table, on=["report", "index"], how="left", validate="one_to_one")
    if assigned is None:
        joined["class"] = -1
    elif classes is not None:
        # A sentence that says nothing about images (filler) has no false negatives.
        probability = classes.set_index("class")["image_probability"].fillna(0.0)
        joined["eta true"] = joined["class"].map(probability).fillna(0.0)
    return joined


def beside(path: str | Path, table: str) -> Path:
    """Return the path of a table stored next to a source: its ``boxes``, ``splits``, ``ratings`` or
    ``classes``.
    """
    return Path(path).with_name(f"{Path(path).stem}-{table}.parquet")


write_pairs = write_source
# The images are a read-only memory map of the file. They use only the system's page cache, which is
# shared by all processes that read the file and freed when memory runs low. Each call reads all
# images once to verify the checksum; comparing a recorded size and modification time would not
# detect later disk errors.
read_pairs = PairSource.read


def _problems(source: PairSource) -> Iterator[str]:
    """Yield messages about tables that do not belong together; they give row numbers because report
    names may be restricted.
    """
    sentences = source.sentences
    classes = source.shown.shape[1]
    lacking = ~np.isin(source.reports, sentences["report"].to_numpy(str))
    if lacking.any():
        yield (
            f"{lacking.sum()} images have reports without sentences; the first is image"
            f" {lacking.argmax()}"
        )
    valid = {f"a class from -1 to {classes - 1}": sentences["class"].isin(range(-1, classes))}
    for column in sentences.columns.intersection(list(PROBABILITY_COLUMNS.values())):
        valid[f"{column} in [0, 1)"] = sentences[column].between(0, 1, inclusive="left")
    images = source.negatives
    shape = images.shape
    if images.dtype != np.int64 or images.ndim != 2 or len(images) != len(sentences):
        yield (
            f"negatives are {images.dtype} of shape {shape}; expected int64 with 2 axes and"
            f" {len(sentences)} rows, one for each sentence"
        )
    elif images.size and not -1 <= images.min() <= images.max() < len(source.reports):
        yield f"negatives have a number that is no image; expected -1 to {len(source.reports) - 1}"
    for expected, rows in valid.items():
        if not rows.all():
            yield (
                f"{(~rows).sum()} sentences are invalid, first in row {rows.argmin()} (counting"
                f" from 0); expected {expected}"
            )

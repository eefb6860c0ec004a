"""What sources of pairs and of texts share: sentences with class probabilities, and the two files
that store a source.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from trueneg.class_probability import LIKELIHOODS, log_linear
from trueneg.data.arrays import mapped_array, read_arrays, require_checksum, write_arrays
from trueneg.io import privacy

# The column of each class probability η that a config can select; a source contains those that are
# known.
PROBABILITY_COLUMNS = {
    "language model": "eta",
    "permuted": "eta permuted",
    "constant mean": "eta constant",
    "length": "eta by length",
    "true": "eta true",
}


class ScoredSentences:
    """A source whose sentences may have class probabilities and the likelihoods that these are made
    of.

    Attributes:
        ARRAYS: names of the attributes that are stored as arrays.
        CONTENT: what messages call a stored source, with its article.
        MAPPED: array that is read as a read-only memory map of the file.
        name: name of the source.
        sentences: one row per sentence.
    """

    ARRAYS: ClassVar[tuple[str, ...]]
    CONTENT: ClassVar[str]
    MAPPED: ClassVar[str] = ""

    name: str
    sentences: DataFrame

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a source written by :func:`write_source` and verify its checksum.

        Raises:
            UserError: if one of the two files is missing or damaged, or they do not belong
                together.
        """
        with read_arrays(path, cls.CONTENT, remove_both(path)) as archive:
            sentences, restricted = privacy.read_table(sentences_of(path))
            make: Any = cls
            source = make(
                **{
                    name: mapped_array(path, name) if name == cls.MAPPED else archive[name]
                    for name in cls.ARRAYS
                    if name in archive
                },
                name=str(archive["name"]),
                sentences=sentences,
                label_names=tuple(archive["label_names"].tolist()),
                restricted=restricted,
                skipped=str(archive.get("skipped", "")),
                language_model=json.loads(str(archive.get("language_model", "null"))),
            )
            require_checksum(source.checksum, archive)
        return source

    @property
    def class_probabilities(self) -> tuple[str, ...]:
        """Return the config names of the available class probabilities."""
        return tuple(
            name for name, column in PROBABILITY_COLUMNS.items() if column in self.sentences
        )

    def class_probability(
        self, name: str, a: float | None = None, k: float | None = None
    ) -> ndarray:
        """Return one of :attr:`class_probabilities` for every sentence, float64; with a and k, made
        of a·p^k.
        """
        if a is None or k is None:
            return self.sentences[PROBABILITY_COLUMNS[name]].to_numpy(np.float64)
        return log_linear(name, self.sentences[LIKELIHOODS], a, k, maximum=a)

    def probability_checksum(self, name: str, log_linear: bool = False) -> str:
        """Return the SHA-256 of one of :attr:`class_probabilities`, or of the likelihoods that
        other a and k are applied to.

        It identifies an input of the runs that use it.
        """
        columns = LIKELIHOODS if log_linear else [PROBABILITY_COLUMNS[name]]
        return hashlib.sha256(self.sentences[columns].to_numpy(np.float64).tobytes()).hexdigest()


def update_with_texts(digest: Any, *lists: Iterable[Any]) -> None:
    """Update a hash with lists of texts; each is prefixed with its length, so that no other lists
    yield the same bytes.
    """
    for values in lists:
        for value in map(str, values):
            encoded = value.encode("utf-8", "surrogatepass")
            digest.update(f"{len(encoded)}:".encode() + encoded)
        digest.update(b";")


def write_source(source: Any, path: str | Path) -> None:
    """Write a source as two files, each atomically: ``path`` (.npz) and its sentences (.parquet) in
    the same folder.
    """
    privacy.write_table(source.sentences, sentences_of(path), source.restricted)
    stored = {
        name: getattr(source, name) for name in ("name", *source.ARRAYS, "skipped", "checksum")
    }
    stored["label_names"] = np.array(source.label_names, dtype=np.str_)
    stored["language_model"] = json.dumps(source.language_model)
    with privacy.owner_only(source.restricted):
        write_arrays(path, stored)


def sentences_of(path: str | Path) -> Path:
    """Return the path of the sentences stored next to an .npz file."""
    return Path(path).with_suffix(".parquet")


def remove_both(path: str | Path) -> str:
    """Return the remedy if an .npz file or its sentences are damaged."""
    return f"Remove it and {sentences_of(path)}, then run the same command again."

"""Mining of hard negatives: the nearest candidates of each training anchor by a frozen tower.

What was mined is a file of its own, whose checksum is part of the ids of the runs that use it:
vectors differ in their last digits between processors, so that another one may mine other texts.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy import ndarray
from scipy.sparse import csr_array

from trueneg.data.arrays import content_hash, read_arrays, write_arrays
from trueneg.data.mistakes import REMOVE
from trueneg.data.pairs.pair_source import distinct_texts
from trueneg.data.samples import Subset, read_subsets
from trueneg.data.stored_features import read_features
from trueneg.data.texts.text_source import TextSource, read_texts
from trueneg.errors import UserError
from trueneg.io.privacy import owner_only
from trueneg.specs.hard_negatives import DEPTH

CONTENT = "mined hard negatives"
CHECKSUM = "checksum"
BLOCK = 2**24  # similarities in memory at once
RANKS = (1, 5, 10, 30, 100)  # at which the share of false ones is stated
DIGITS = 4  # of similarities; equal ones are ordered by row, so that rounding seldom decides


class Mined(NamedTuple):
    """The nearest candidates of n anchors, from the nearest; M of each.

    Attributes:
        anchors: (n,) rows of the source's sentences, sorted.
        candidates: (n, M) int32 rows of the candidates; −1: there are fewer.
        similarity: (n, M) float32 cosines, rounded; −inf where there is no candidate.
    """

    anchors: ndarray
    candidates: ndarray
    similarity: ndarray

    @property
    def checksum(self) -> str:
        """Hexadecimal SHA-256 of what was mined."""
        digest: str = content_hash(*self).hexdigest()
        return digest


def mine(source: TextSource, subset: Subset, vectors: ndarray) -> Mined:
    """Find the nearest texts of each training anchor.

    The candidates are the training texts that can be positives: those of given pairs, otherwise
    all. A text that equals the anchor when normalised, or that is given as its positive in any row,
    is never one.

    Args:
        source: texts.
        subset: a subset of them; no other split is seen.
        vectors: (R, D) vectors of the source's sentences.
    """
    rows = source.matching[subset.train]
    numbers = source.text_numbers[subset.train]
    column = min(1, rows.shape[1] - 1)
    found, first = np.unique(numbers[:, column:], return_index=True)
    candidates = rows[:, column:].ravel()[first]
    found = found[candidates.argsort()]
    candidates.sort()
    anchors, places = np.unique(rows[:, 0], return_index=True)
    positives = known_positives(numbers, found)[numbers[places, 0]]
    return Mined(anchors, *nearest(vectors[anchors], vectors[candidates], candidates, positives))


def known_positives(numbers: ndarray, candidates: ndarray) -> csr_array:
    """Return (T, C) bool: the candidates that are no negatives of each text, by their numbers."""
    anchors = np.repeat(numbers[:, 0], numbers.shape[1])
    pairs = np.stack([anchors, numbers.ravel()], axis=1)  # each anchor's first one is itself
    both = np.concatenate([pairs, pairs[:, ::-1]])
    places = pd.Index(candidates).get_indexer(both[:, 1])
    known = np.unique(np.stack([both[:, 0], places])[:, places >= 0], axis=1)
    shape = (numbers.max() + 1, len(candidates))
    return csr_array((np.ones(known.shape[1], bool), known), shape=shape)


def nearest(
    anchors: ndarray, candidates: ndarray, rows: ndarray, positives: csr_array
) -> tuple[ndarray, ndarray]:
    """Return the rows of the nearest candidates of each anchor, and their similarities; exact,
    computed for blocks of anchors.
    """
    depth = min(DEPTH, len(candidates))
    found = np.empty((len(anchors), depth), np.int32)
    similarity = np.empty((len(anchors), depth), np.float32)
    unit = normalised_vectors(candidates).T
    count = 1 + len(anchors) * len(candidates) // BLOCK
    for block in np.array_split(np.arange(len(anchors)), count):
        cosines = (normalised_vectors(anchors[block]) @ unit).round(DIGITS)
        cosines[positives[block].nonzero()] = -np.inf
        nearest = np.sort(np.argpartition(-cosines, depth - 1, axis=1)[:, :depth], axis=1)
        of_nearest = np.take_along_axis(cosines, nearest, axis=1)
        # of equal ones, the first row is the nearest
        order = np.argsort(-of_nearest, axis=1, kind="stable")
        similarity[block] = np.take_along_axis(of_nearest, order, axis=1)
        found[block] = rows[np.take_along_axis(nearest, order, axis=1)]
    found[similarity == -np.inf] = -1
    return found, similarity


def normalised_vectors(vectors: ndarray) -> ndarray:
    """Return vectors of unit length; of zeros, zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(vectors.dtype).tiny)


def false_by_rank(mined: Mined, classes: ndarray) -> dict[str, float]:
    """Return the share of the nearest candidates with their anchor's label, by the number of ranks.

    Args:
        mined: what was mined.
        classes: label of each of the source's sentences; −1: none.
    """
    is_labelled = (classes[mined.candidates] >= 0) & (classes[mined.anchors] >= 0)[:, None]
    is_known = is_labelled & (mined.candidates >= 0)
    is_false = is_known & (classes[mined.candidates] == classes[mined.anchors][:, None])
    return {
        str(rank): float(is_false[:, :rank].sum() / is_known[:, :rank].sum())
        for rank in RANKS
        if is_known[:, :rank].any()
    }


def write_mined(
    source: str | Path, subsets: str | Path, vectors: str | Path, mined: str | Path
) -> None:
    """Mine the hard negatives of every seed of a block.

    Args:
        source: texts (npz).
        subsets: the subsets of the block (parquet).
        vectors: stored vectors of the tower that mines.
        mined: npz file to write.
    """
    texts = read_texts(source)
    stored = read_features(vectors, texts.checksum)
    of_sentences = np.asarray(stored.values)[_rows_of(texts), 0, :, 0]
    arrays: dict[str, ndarray] = {}
    for seed, subset in read_subsets(subsets).items():
        of_seed = mine(texts, subset, of_sentences)
        arrays |= {f"{seed} {name}": values for name, values in of_seed._asdict().items()}
        arrays[f"{seed} {CHECKSUM}"] = np.array(of_seed.checksum)
    with owner_only(texts.restricted):
        write_arrays(mined, {**arrays, "data": np.array(texts.checksum)})


def read_mined(path: str | Path, data: str) -> dict[int, Mined]:
    """Read what :func:`write_mined` wrote, by seed.

    Raises:
        UserError: if the file is missing, damaged, or belongs to other data.
    """
    with read_arrays(path, CONTENT) as archive:
        mined = {
            seed: Mined(*(archive[f"{seed} {field}"] for field in Mined._fields))
            for seed in _seeds(archive)
        }
        for seed, of_seed in mined.items():
            if of_seed.checksum != str(archive[f"{seed} {CHECKSUM}"]):
                raise ValueError(f"what was mined for seed {seed} has another checksum: damaged")
        if (other := str(archive["data"])) != data:
            raise UserError(
                f"{path} was mined from other data (checksum {other[:6]}…; expected {data[:6]}…)."
                f" {REMOVE}"
            )
    return mined


def mined_checksum(folder: Path, seed: int) -> str | None:
    """Return the checksum of what was mined for a seed, in any file of a folder; None: nothing."""
    for path in sorted(folder.glob("*.npz")):
        with read_arrays(path, CONTENT) as archive:
            if seed in _seeds(archive):
                return str(archive[f"{seed} {CHECKSUM}"])
    return None


def _seeds(archive: Any) -> list[int]:
    names = [name for name in archive.files if name.endswith(f" {CHECKSUM}")]
    return [int(name.partition(" ")[0]) for name in names]


def _rows_of(source: TextSource) -> ndarray:
    """Return the row in the stored vectors of each of the source's sentences."""
    return pd.Index(distinct_texts(source)).get_indexer(pd.Index(source.sentences["sentence"]))

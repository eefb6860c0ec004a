"""Mining of hard negatives: the nearest candidates of each training anchor by a frozen tower, or by
words.

What was mined is a file of its own, whose checksum is part of the ids of the runs that use it:
vectors differ in their last digits between processors, so that another one may mine other texts.
"""

import functools
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame
from scipy.sparse import csr_array

from trueneg.data.arrays import content_hash, read_arrays, resumed_array, write_arrays
from trueneg.data.mistakes import REMOVE
from trueneg.data.pairs.pair_source import distinct_texts
from trueneg.data.samples import Subset, read_subsets
from trueneg.data.stored_features import read_features
from trueneg.data.texts.text_source import TextSource, read_texts
from trueneg.errors import UserError
from trueneg.io.files import write_tables
from trueneg.io.privacy import owner_only
from trueneg.specs.hard_negatives import DEPTH
from trueneg.specs.stages import VERSIONS

CONTENT = "mined hard negatives"
CHECKSUM = "checksum"
BLOCK = 2**24  # similarities in memory at once
DIGITS = 4  # of similarities; equal ones are ordered by row, so that rounding seldom decides
RANKS = (1, 5, 10, 30, 100)  # at which the share of false ones is stated
WIDTH = 0.05  # of the intervals of similarities for which it is stated, and their ends, between
EDGES = np.arange(-20, 22) * WIDTH - 0.5 / 10**DIGITS  # rounded values


class Mined(NamedTuple):
    """The nearest candidates of n anchors, from the nearest; M of each.

    Attributes:
        anchors: (n,) rows of the source's sentences, sorted.
        candidates: (n, M) int32 rows of the candidates; −1: there are fewer.
        similarity: (n, M) float32 cosines by the tower, rounded; −inf where there is no candidate.
    """

    anchors: ndarray
    candidates: ndarray
    similarity: ndarray

    @property
    def checksum(self) -> str:
        """Hexadecimal SHA-256 of what was mined."""
        digest: str = content_hash(*self).hexdigest()
        return digest


def mine(
    source: TextSource,
    subset: Subset,
    vectors: ndarray,
    cache: Path | None = None,
    bm25: bool = False,
) -> Mined:
    """Find the nearest texts of each training anchor.

    The candidates are the training texts that can be positives: those of given pairs, otherwise
    all. A text that equals the anchor when normalised, or that is given as its positive in any row,
    is never one.

    Args:
        source: texts.
        subset: a subset of them; no other split is seen.
        vectors: (R, D) vectors of the source's sentences.
        cache: folder of what is mined, from which a killed job resumes; None: memory.
        bm25: whether texts are ranked by words, and only those with a common word are candidates.
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
    ranking = None
    if bm25:
        sentences = source.sentences["sentence"]
        texts = (sentences.iloc[each].tolist() for each in (anchors, candidates))
        ranking = _by_words(*texts)
    content = content_hash(vectors, rows, numbers).hexdigest()
    made_of = {"version": VERSIONS["mining"], "content": content, "bm25": bm25}
    found, similarity = nearest(
        vectors[anchors], vectors[candidates], candidates, positives, ranking, cache, made_of
    )
    return Mined(anchors, found, similarity)


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
    anchors: ndarray,
    candidates: ndarray,
    rows: ndarray,
    positives: csr_array,
    ranking: Callable[[slice], ndarray] | None = None,
    cache: Path | None = None,
    made_of: Mapping[str, Any] = {},
) -> tuple[ndarray, ndarray]:
    """Return the rows of the nearest candidates of each anchor, (n, M) int32, and their
    similarities; exact.

    Args:
        anchors: (n, D) vectors.
        candidates: (C, D) vectors.
        rows: (C,) rows of the candidates.
        positives: (n, C) bool, the candidates that are no negatives.
        ranking: returns what the candidates of a slice of the anchors are ranked by, (m, C); None:
            the similarities.
        cache: folder of what is mined; None: memory.
        made_of: what determines the content of the cache.
    """
    depth = min(DEPTH, len(candidates))
    unit = normalised_vectors(candidates).T

    def of_anchors(block: slice) -> ndarray:
        """Return rows and the bytes of similarities, (m, 2, M) int32."""
        cosines = (normalised_vectors(anchors[block]) @ unit).round(DIGITS)
        scores = cosines if ranking is None else ranking(block)
        scores[positives[block].nonzero()] = -np.inf
        nearest = np.sort(np.argpartition(-scores, depth - 1, axis=1)[:, :depth], axis=1)
        # of equal ones, the first row is the nearest
        order = np.argsort(-np.take_along_axis(scores, nearest, axis=1), axis=1, kind="stable")
        nearest = np.take_along_axis(nearest, order, axis=1)
        is_none = np.take_along_axis(scores, nearest, axis=1) == -np.inf
        similarity = np.take_along_axis(cosines, nearest, axis=1).astype(np.float32)
        similarity[is_none] = -np.inf
        found = np.where(is_none, -1, rows[nearest]).astype(np.int32)
        return np.stack([found, similarity.view(np.int32)], axis=1)

    at_once = max(1, BLOCK // len(candidates))
    if cache is None:
        starts = range(0, len(anchors), at_once)
        both = np.concatenate([of_anchors(slice(start, start + at_once)) for start in starts])
    else:
        both = resumed_array(cache, made_of, len(anchors), of_anchors, at_once)
    return both[:, 0], both[:, 1].view(np.float32)


def _by_words(anchors: list[str], candidates: list[str]) -> Callable[[slice], ndarray]:
    """Return what computes the BM25 of the candidates for some anchors, (n, C), rounded; −inf
    without a common word.
    """
    try:
        import bm25s
    except ImportError as error:
        raise UserError(
            "hard_negatives.bm25 is true, but the package bm25s is missing; install it with: pip"
            " install 'trueneg[bm25]'."
        ) from error
    split = functools.partial(bm25s.tokenize, stopwords=None, return_ids=False, show_progress=False)
    index = bm25s.BM25()
    index.index(split(candidates), show_progress=False)
    words = split(anchors)

    def of_anchors(block: slice) -> ndarray:
        scores = np.stack([index.get_scores(each or [""]) for each in words[block]])
        return np.where(scores > 0, scores.round(DIGITS), -np.inf)

    return of_anchors


def normalised_vectors(vectors: ndarray) -> ndarray:
    """Return vectors of unit length; of zeros, zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(vectors.dtype).tiny)


def false_shares(mined: Mined, classes: ndarray) -> DataFrame:
    """Count how many candidates have their anchor's label: of the nearest ones, by the number of
    ranks, and of those with about one similarity.

    Args:
        mined: what was mined.
        classes: label of each of the source's sentences; −1: none.

    Returns:
        One row per number of ranks and interval of similarities: ``by`` (``rank`` or
        ``similarity``), ``at`` (the number, or the middle of the interval), ``pairs`` (with known
        labels), ``false`` and ``share``.
    """
    of_anchors = classes[mined.anchors]
    counts = np.zeros((2, mined.candidates.shape[1], len(EDGES) - 1), np.int64)
    columns = zip(mined.candidates.T, mined.similarity.T, strict=True)
    for rank, (rows, similarity) in enumerate(columns):  # all at once would need much memory
        is_known = (rows >= 0) & (classes[rows] >= 0) & (of_anchors >= 0)
        is_false = is_known & (classes[rows] == of_anchors)
        for number, chosen in enumerate((is_known, is_false)):
            counts[number, rank] = np.histogram(similarity[chosen], EDGES)[0]
    middles = (EDGES[:-1] + WIDTH / 2).round(3)
    nearest = [("rank", rank, *counts[:, :rank].sum((1, 2))) for rank in RANKS]
    similar = [("similarity", *row) for row in zip(middles, *counts.sum(1), strict=True)]
    table = DataFrame([*nearest, *similar], columns=["by", "at", "pairs", "false"])
    table = table[table["pairs"] > 0]
    return table.assign(share=table["false"] / table["pairs"])


def false_by_rank(mined: Mined, classes: ndarray) -> dict[str, float]:
    """Return the shares of :func:`false_shares` by the number of ranks."""
    most = RANKS[-1]
    nearest = Mined(mined.anchors, mined.candidates[:, :most], mined.similarity[:, :most])
    shares = false_shares(nearest, classes).query("by == 'rank'").set_index("at")["share"]
    return {f"{rank:g}": share for rank, share in shares.items()}


def write_false_shares(source: str | Path, mined: Mapping[str, str], shares: str | Path) -> None:
    """Write the shares of :func:`false_shares` of all seeds.

    Args:
        source: texts (npz).
        mined: name of the miner of each file of :func:`write_mined`.
        shares: parquet file to write, named after the data set; also with ``miner``, ``seed`` and
            ``dataset``.
    """
    texts = read_texts(source)
    classes = texts.sentences["class"].to_numpy()
    tables = [
        false_shares(of_seed, classes).assign(miner=miner, seed=seed)
        for path, miner in mined.items()
        for seed, of_seed in read_mined(path, texts.checksum).items()
    ]
    write_tables({shares: pd.concat(tables).assign(dataset=Path(shares).stem)})


def write_mined(
    source: str | Path,
    subsets: str | Path,
    vectors: str | Path,
    mined: str | Path,
    bm25: bool = False,
) -> None:
    """Mine the hard negatives of every seed of a block; a killed job resumes after its last
    finished piece.

    Args:
        source: texts (npz).
        subsets: the subsets of the block (parquet).
        vectors: stored vectors of the tower that mines.
        mined: npz file to write.
        bm25: see :func:`mine`.
    """
    texts = read_texts(source)
    stored = read_features(vectors, texts.checksum)
    of_sentences = np.asarray(stored.values)[_rows_of(texts), 0, :, 0]
    arrays: dict[str, ndarray] = {}
    cache = Path(mined).with_suffix("")
    with owner_only(texts.restricted):
        for seed, subset in read_subsets(subsets).items():
            of_seed = mine(texts, subset, of_sentences, cache / str(seed), bm25)
            arrays |= {f"{seed} {name}": values for name, values in of_seed._asdict().items()}
            arrays[f"{seed} {CHECKSUM}"] = np.array(of_seed.checksum)
        write_arrays(mined, {**arrays, "data": np.array(texts.checksum)})
    shutil.rmtree(cache)


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

"""Near duplicates in two splits, such as re-encoded images and texts with other punctuation; they
are counted and shown, not left out.

``benchmarks/near_duplicates.md`` has the measured shares of those that are found.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from trueneg.data.leakage import EXAMPLES, shortened
from trueneg.data.samples import Samples, Subset
from trueneg.text.cleaning import normalised

SIDE = 16  # pixels of a thumbnail; smaller images are too much alike
DIMENSIONS = SIDE**2
IMAGES = 0.98  # cosine of two thumbnails
TEXTS = 0.9  # of the trigrams of two texts
AT_ONCE = 256  # bounds the memory
TEXTS_AT_ONCE = 4_096
PUNCTUATION = re.compile(r"[\W_]+")


class Looks(NamedTuple):
    """Vectors by which near duplicates are recognised.

    Attributes:
        vectors: float32 (m, D), of unit length; all 0: like no other.
        rows: the vectors of each sample, (n, k).
        names: what messages call the vectors; empty: unknown.
        least: cosine of near duplicates.
    """

    vectors: ndarray
    rows: ndarray
    names: ndarray
    least: float


def looks_of_images(images: ndarray, names: ndarray) -> Looks:
    """Return grey thumbnails, without their mean.

    Args:
        images: uint8 (n, C, H, W); may be memory-mapped.
        names: what messages call the images.
    """
    vectors = np.zeros((len(images), DIMENSIONS), np.float32)
    height, width = images.shape[2:]
    if min(height, width) >= SIDE:
        top, left = (np.arange(SIDE) * size // SIDE for size in (height, width))
        pixels = np.outer(np.diff([*top, height]), np.diff([*left, width]))
        for start in range(0, len(images), AT_ONCE):
            grey = images[start : start + AT_ONCE].mean(1, dtype=np.float32)
            sums = np.add.reduceat(np.add.reduceat(grey, top, axis=1), left, axis=2)
            vectors[start : start + AT_ONCE] = (sums / pixels).reshape(len(sums), -1)
        vectors -= vectors.mean(1, keepdims=True)
    return Looks(_of_unit_length(vectors), np.arange(len(images))[:, None], names, IMAGES)


def looks_of_texts(texts: Sequence[str], rows: ndarray) -> Looks:
    """Return the hashed trigrams of texts, without case and punctuation.

    Args:
        texts: m different texts.
        rows: the texts of each sample, (n, k).
    """
    vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        some = texts[start : start + TEXTS_AT_ONCE]
        words = [PUNCTUATION.sub(" ", normalised(text)).strip() for text in some]
        padded = [f"  {each} " for each in words]
        rows_of_codes = np.repeat(np.arange(len(some)), list(map(len, padded)))
        codes = np.frombuffer("".join(padded).encode("utf-32-le"), np.uint32).astype(np.uint64)
        trigrams = (codes[:-2] << 42) ^ (codes[1:-1] << 21) ^ codes[2:]
        hashed = (trigrams * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(55)  # 9 bits
        places = rows_of_codes[:-2] * 2 * DIMENSIONS + hashed.astype(np.int64)
        is_within = rows_of_codes[:-2] == rows_of_codes[2:]
        counts = np.bincount(places[is_within], minlength=len(some) * 2 * DIMENSIONS)
        by_sign = counts.reshape(len(some), 2, DIMENSIONS)
        vectors[start : start + len(some)] = by_sign[:, 0] - by_sign[:, 1]
    return Looks(_of_unit_length(vectors), rows, np.array(texts, object), TEXTS)


def near_duplicates(samples: Samples, looks: Looks, subset: Subset) -> str:
    """Return a sentence about test samples that nearly equal a training sample, with examples
    unless the data are restricted; empty if there are none.

    Example:
        >>> from types import SimpleNamespace
        >>> samples = SimpleNamespace(restricted=False)
        >>> texts = ["Where is my card?", "Where's my card", "Top up", "Top-up!"]
        >>> looks = looks_of_texts(texts, np.arange(4)[:, None])
        >>> subset = SimpleNamespace(seed=0, train=np.array([0, 2]), test=np.array([1, 3]))
        >>> print(near_duplicates(samples, looks, subset))
        1 of 2 test samples nearly equal a training sample (seed 0), such as “Top-up!” and “Top up”.
    """
    trained = np.unique(looks.rows[subset.train])
    tested = np.unique(looks.rows[subset.test])
    if not looks.vectors.any() or not len(trained):
        return ""
    of_trained = looks.vectors[trained].T
    cosines = np.empty((AT_ONCE, len(trained)), np.float32)
    nearest = np.full(len(looks.vectors), -1)
    for start in range(0, len(tested), AT_ONCE):
        rows = tested[start : start + AT_ONCE]
        cosine = np.matmul(looks.vectors[rows], of_trained, out=cosines[: len(rows)])
        is_near = cosine.max(1) >= looks.least
        nearest[rows[is_near]] = trained[cosine[is_near].argmax(1)]
    of_test = looks.rows[subset.test]
    count = np.count_nonzero((nearest[of_test] >= 0).any(1))
    if not count:
        return ""
    shown = np.flatnonzero(nearest >= 0)[:EXAMPLES]
    examples = [
        " and ".join(f"“{shortened(looks.names[row])}”" for row in (first, nearest[first]))
        for first in (() if samples.restricted or not len(looks.names) else shown)
    ]
    return (
        f"{count:,} of {len(of_test):,} test samples nearly equal a training sample (seed"
        f" {subset.seed}){', such as ' if examples else ''}{'; '.join(examples)}."
    )


def _of_unit_length(vectors: ndarray) -> ndarray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 1e-3)

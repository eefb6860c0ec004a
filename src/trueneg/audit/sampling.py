"""Draw the pairs to rate from a table of candidate pairs: stratified by rank and similarity, with
at most one pair per anchor and group, and equal chances within a range of ranks.
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from trueneg.randomness import rng_for

ENDS = (5, 10, 30, 100)  # last rank of each range
EQUAL = 0.1  # share of the pairs that all ranges share equally; the others follow their sizes
SLOTS = 16  # per cell, a power of two


class Sample(NamedTuple):
    """Pairs drawn from a table.

    Attributes:
        rows: (n,) rows of the table, by range of ranks and from the most similar.
        weights: (n,) number of the table's pairs that each stands for.
    """

    rows: ndarray
    weights: ndarray


def ranges_of(ranks: ndarray, ends: tuple[int, ...] = ENDS) -> ndarray:
    """Return the number of the range that each rank (from 1) is in; ranks beyond the last end
    belong to its range.

    Example:
        >>> ranges_of(np.array([1, 5, 6, 100])).tolist()
        [0, 0, 1, 3]
    """
    return np.minimum(np.searchsorted(ends, ranks), len(ends) - 1)


def draw(
    anchors: ndarray,
    groups: ndarray,
    ranges: ndarray,
    similarity: ndarray,
    *,
    pairs: int = 120,
    seed: int = 0,
) -> Sample:
    """Draw pairs to rate.

    Each range is cut by similarity into as many cells of equal size as it contributes pairs, and
    each cell contributes one pair. All pairs of a range have the same chance. If the pairs of one
    group are more than 1/n of the table, their chances are lower, so that the group counts for 1/n,
    and the sample is smaller.

    Args:
        anchors: (N,) integer, the anchor of each pair.
        groups: (N,) integer, the group of each pair's anchor; −1: none.
        ranges: (N,) range of ranks of each pair (:func:`ranges_of`).
        similarity: (N,).
        pairs: number of pairs to draw.
        seed: the same seed draws the same pairs.
    """
    frame = Frame(owners_of(anchors, groups), ranges, similarity)
    drawn = frame.drawn(pairs, rng_for(seed, "audit"))[0]
    rows = drawn[drawn >= 0]
    stands_for = frame.sizes / np.maximum(np.bincount(ranges[rows], None, len(frame.sizes)), 1)
    return Sample(rows, stands_for[ranges[rows]])


def owners_of(anchors: ndarray, groups: ndarray) -> ndarray:
    """Return the number of what may contribute one pair only: the group, or else the anchor."""
    return np.unique(np.where(groups < 0, 2 * anchors, 2 * groups + 1), return_inverse=True)[1]


def allocated(sizes: ndarray, pairs: int) -> ndarray:
    """Return the number of pairs to draw from each range, at most its size; at least one from each
    that is not empty, if there are as many pairs as such ranges.

    Apart from rounding, a drawn pair stands for at most 1/(1 − EQUAL) times as many pairs as it
    would in a simple random sample: the bound of the loss by stratification. It stands for more
    only where its range gives a draw to one that would have none; with four ranges and at least 40
    pairs, there is no such range.

    Example:
        >>> allocated(np.array([5, 5, 20, 70]), 10).tolist()
        [1, 1, 2, 6]
    """
    shares = (1 - EQUAL) * sizes / sizes.sum() + EQUAL * (sizes > 0) / (sizes > 0).sum()
    ends = np.rint(np.cumsum(shares) * pairs).astype(int)
    counts = np.minimum(np.diff(ends, prepend=0), sizes)
    if pairs >= np.count_nonzero(sizes):
        for without in np.flatnonzero((counts == 0) & (sizes > 0)):
            counts[counts.argmax()] -= 1
            counts[without] = 1
    return counts


class Frame:
    """A table of candidate pairs, ready for many draws.

    Args:
        owners: (N,) from :func:`owners_of`.
        ranges, similarity: as in :func:`draw`.
    """

    def __init__(self, owners: ndarray, ranges: ndarray, similarity: ndarray) -> None:
        self.owners = owners
        self.sizes = np.bincount(ranges)
        self.order = np.lexsort((-similarity, ranges))

    def drawn(self, pairs: int, rng: np.random.Generator, times: int = 1) -> ndarray:
        """Return (times, n) rows, a sample in each line; −1: none."""
        counts = allocated(self.sizes, pairs)
        starts = np.cumsum(self.sizes) - self.sizes
        places = [
            start + size * (rng.random((times, 1)) + np.arange(slots)) / slots
            for start, size, slots in zip(starts, self.sizes, counts * SLOTS, strict=True)
        ]
        rows = self.order[np.concatenate(places, axis=1).astype(int)].ravel()
        cells = np.arange(len(rows)) // SLOTS
        owners = self.owners[rows] + cells // counts.sum() * (self.owners.max() + 1)
        kept = np.arange(len(rows))
        while len(kept) > cells[-1] + 1:
            kept = kept[_half(owners[kept], cells[kept], rng)]
        kept = rng.permutation(kept)  # of a large group's, any one
        kept = kept[np.unique(owners[kept], return_index=True)[1]]
        chosen = np.full(cells[-1] + 1, -1)
        chosen[cells[kept]] = rows[kept]
        return chosen.reshape(times, -1)


def _half(owners: ndarray, cells: ndarray, rng: np.random.Generator) -> ndarray:
    """Return bool: a random half of the slots that contains half of each owner's and of each
    cell's, rounded up or down (dependent rounding; Gandhi et al., 2006). Each slot has chance ½.

    Slots of one owner, and those of one cell, are linked in twos, of which one is kept. Links form
    paths and circles of even length, whose slots are kept in turn: the two ways to do so are the
    components of a graph that has each slot twice, kept and not kept.
    """
    count = len(owners)
    links = []
    for labels in (owners, cells):
        order = np.argsort(labels + rng.random(count))
        ordered = labels[order]
        position = np.arange(count) - np.searchsorted(ordered, ordered)  # among its label's
        second = np.flatnonzero(position % 2)
        links.append(order[[second - 1, second]])
    one, other = np.concatenate(links, axis=1)
    ends = np.concatenate([one, other]), np.concatenate([other, one]) + count
    graph = csr_array((np.ones(len(ends[0])), ends), shape=(2 * count, 2 * count))
    ways, part = connected_components(graph, directed=False)
    chance = rng.permutation(ways)[part]
    return chance[:count] < chance[count:]

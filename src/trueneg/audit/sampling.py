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
EQUAL = 0.3  # share of the pairs that all ranges share equally; the others follow their sizes
SLOTS = 16  # per cell, a power of two


class Sample(NamedTuple):
    """Pairs drawn from a table.

    Attributes:
        rows: (n,) rows of the table, by range of ranks and from the most similar.
        ranges: (n,) range of ranks of each.
        weights: (n,) number of the table's pairs that each stands for.
    """

    rows: ndarray
    ranges: ndarray
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
    group are more than 1/n of the table, as many of them as exceed it, chosen at random, have none;
    then the sample can be smaller.

    Args:
        anchors: (N,) integer, the anchor of each pair.
        groups: (N,) integer, the group of each pair's anchor; −1: none.
        ranges: (N,) range of ranks of each pair (:func:`ranges_of`).
        similarity: (N,).
        pairs: number of pairs to draw.
        seed: the same seed draws the same pairs.
    """
    owners = owners_of(anchors, groups)
    drawn = Frame(owners, ranges, similarity).drawn(pairs, rng_for(seed, "audit"))[0]
    rows = drawn[drawn >= 0]
    sizes = np.bincount(ranges)
    weights = sizes / np.maximum(np.bincount(ranges[rows], minlength=len(sizes)), 1)
    return Sample(rows, ranges[rows], weights[ranges[rows]])


def owners_of(anchors: ndarray, groups: ndarray) -> ndarray:
    """Return the number of what may contribute one pair only: the group, or else the anchor."""
    return np.unique(np.where(groups < 0, 2 * anchors, 2 * groups + 1), return_inverse=True)[1]


def allocated(sizes: ndarray, pairs: int) -> ndarray:
    """Return the number of pairs to draw from each range, at most its size.

    A pair of a range that holds the share W of the table stands for at most 1/(1 − EQUAL) times as
    many pairs as it would in a simple random sample: the bound of the loss by stratification.
    """
    shares = (1 - EQUAL) * sizes / sizes.sum() + EQUAL * (sizes > 0) / (sizes > 0).sum()
    ends = np.rint(np.cumsum(shares) * pairs).astype(int)
    return np.minimum(np.diff(ends, prepend=0), sizes)


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
            start + (rng.random((times, 1)) + np.arange(count * SLOTS)) * (size / (count * SLOTS))
            for start, size, count in zip(starts, self.sizes, counts, strict=True)
            if count
        ]
        rows = self.order[np.concatenate(places, axis=1).astype(int)].ravel()
        cells = np.arange(len(rows)) // SLOTS
        audit = cells // counts.sum()
        owners = self.owners[rows] + audit * (self.owners.max() + 1)
        kept = np.flatnonzero(_positions(owners, rng)[1] < SLOTS)
        for _ in range(SLOTS.bit_length() - 1):
            kept = kept[_half(owners[kept], cells[kept], rng)]
        chosen = np.full(times * counts.sum(), -1)
        chosen[cells[kept]] = rows[kept]
        return chosen.reshape(times, -1)


def _positions(labels: ndarray, rng: np.random.Generator) -> tuple[ndarray, ndarray]:
    """Return an order by label that is random within labels, and each element's position among
    those of its label.
    """
    order = np.argsort(labels + rng.random(len(labels)))
    is_first = np.diff(labels[order], prepend=-1) != 0
    counted = np.arange(len(labels))
    positions = np.empty_like(order)
    positions[order] = counted - np.maximum.accumulate(np.where(is_first, counted, 0))
    return order, positions


def _half(owners: ndarray, cells: ndarray, rng: np.random.Generator) -> ndarray:
    """Return bool: a random half of the slots that contains half of each owner's and of each
    cell's, rounded up or down (dependent rounding; Gandhi et al., 2006). Each slot has chance ½.

    Slots of one owner, and those of one cell, are linked in twos, of which one is kept. Links form
    paths and circles of even length, whose slots are kept in turn: the two ways to do so are the
    components of a graph that has each slot twice, kept and not kept.
    """
    links = []
    for labels in (owners, cells):
        order, positions = _positions(labels, rng)
        second = np.flatnonzero(positions[order] % 2)
        links.append([order[second - 1], order[second]])
    one, other = np.concatenate(links, axis=1)
    count = len(owners)
    ends = np.concatenate([one, other]), np.concatenate([other, one]) + count
    graph = csr_array((np.ones(len(ends[0]), bool), ends), shape=(2 * count, 2 * count))
    ways, part = connected_components(graph, directed=False)
    chance = rng.permutation(ways)[part]
    return chance[:count] < chance[count:]

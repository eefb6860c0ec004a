"""Seeded draws that decide which samples are held out, by class or by groups that stay together."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy import ndarray
from pandas import DataFrame, Series
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def order_in_class(labels: ndarray, seed: int) -> ndarray:
    """Draw the place, from 0, of each sample in its class.

    Each class has its own RNG, so its order does not depend on the other classes.

    Args:
        labels: integers, shape (n,).
        seed: a non-negative integer.
    """
    place = np.empty(len(labels), np.int64)
    for label in np.unique(labels).tolist():
        of_class = np.flatnonzero(labels == label)
        drawn = np.random.default_rng((seed, label)).permutation(of_class)
        place[drawn] = np.arange(len(drawn))
    return place


def with_rare_classes(
    labels: ndarray,
    rare: Sequence[int] | ndarray,
    fraction: float,
    order: ndarray,
    least: int,
) -> ndarray:
    """Return sorted int64 positions: a fraction of each rare class, and all of the other classes.

    Args:
        labels: integers, shape (n,).
        rare: labels of the rare classes.
        fraction: r in (0, 1]; a rare class with n_c samples keeps the first round(r · n_c).
        order: numbers, shape (n,), different within a class; for the same order, the samples of a
            smaller fraction are among those of a larger one.
        least: number of samples that a rare class keeps if it has as many.
    """
    of_class = Series(order).groupby(labels)
    kept = (of_class.transform("size") * fraction).round().clip(lower=least)
    return np.flatnonzero(~np.isin(labels, rare) | (of_class.rank() <= kept))


def drawn_splits(
    order: ndarray,
    shares: Mapping[str, float],
    *,
    stratum: ndarray | int = 0,
    group: ndarray | None = None,
    keep: int = 1,
    rest: str = "train",
) -> ndarray:
    """Fill splits with the first groups of each stratum, and return the split of each sample.

    Groups larger than a split come last. If there are too few others, the splits share them; one
    without any has the smallest group that is left.

    Args:
        order: numbers, shape (n,), different within a stratum; a group has that of its first
            sample.
        shares: share of each stratum's samples for each split, rounded to at least one. With the
            same order, a larger share of a single split contains a smaller one.
        stratum: (n,), or one for all samples.
        group: (n,), what stays together; None: each sample is a group.
        keep: number of samples of each stratum that are never held out.
        rest: name of what remains.

    Example:
        >>> drawn_splits(np.array([2, 0, 3, 1]), {"test": 0.25}).tolist()
        ['train', 'test', 'train', 'train']
    """
    group = np.arange(len(order)) if group is None else group
    samples = DataFrame({"order": order, "stratum": stratum, "size": 1})
    groups = samples.groupby(group).agg({"order": "first", "stratum": "first", "size": "sum"})
    total = groups.groupby("stratum")["size"].transform("sum")
    remaining = (total - keep).clip(lower=0)
    sizes = []
    for share in shares.values():
        sizes.append(np.minimum((total * share).round().clip(lower=1), remaining))
        remaining = remaining - sizes[-1]
    groups["is_large"] = groups["size"] > np.minimum.reduce(sizes).clip(1)
    small = groups["size"].where(~groups["is_large"], 0)
    available = small.groupby(groups["stratum"]).transform("sum")
    # With too few other groups, the first split leaves its share of them to the next.
    sizes[0] = np.minimum(sizes[0], (available * sizes[0] / sum(sizes)).round())
    in_order = groups.sort_values(["is_large", "order"])
    end = in_order.groupby("stratum")["size"].cumsum().sort_index()
    is_before = [end <= limit for limit in itertools.accumulate(sizes)]
    groups["split"] = np.select(is_before, list(shares), rest)
    for name in shares:
        if not groups["split"].eq(name).any():
            left = groups["size"].where(groups["split"] == rest, 0)
            of_stratum = left.groupby(groups["stratum"]).transform("sum")
            possible = groups[(left > 0) & (of_stratum - left >= keep) & (left < left.sum())]
            smallest = possible.sort_values(["size", "order"]).index[:1]
            groups.loc[smallest, "split"] = name
    return groups["split"][group].to_numpy()


def connected_groups(*contents: ndarray) -> ndarray:
    """Number the groups of samples that share a content, directly or through other samples.

    Args:
        contents: numbers or names, (n,), or (n, k) if a sample has several; those of different
            arrays are different contents.

    Example:
        >>> connected_groups(np.array([[1, 2], [3, 4], [2, 5]])).tolist()
        [0, 1, 0]
        >>> connected_groups(np.array([1, 2, 3]), np.array(["a", "b", "b"])).tolist()
        [0, 1, 1]
    """
    count = len(contents[0])
    size = count  # number of samples and contents
    columns = []
    for values in contents:
        names, numbers = np.unique(values, return_inverse=True)
        columns.append(size + numbers.reshape(values.shape))
        size += len(names)
    content = np.column_stack(columns)
    ends = (np.repeat(np.arange(count), content.shape[1]), content.ravel())
    graph = coo_array((np.ones(content.size), ends), (size, size))
    return connected_components(graph)[1][:count]

"""Bootstrap over clusters: intervals when several measurements come from one patient or image."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from trueneg.evaluation.retrieval import as_array
from trueneg.randomness import seed_for

# Maps multiplicities (r, n) of n items in r draws to the statistic of each draw, (r,) or (r, K).
Statistic = Callable[[np.ndarray], np.ndarray]


class Interval(NamedTuple):
    """A statistic with its bootstrap interval.

    Attributes:
        estimate: of the items as they are.
        low: lower end.
        high: upper end.
        undefined: share of the draws in which the statistic is NaN (no positive drawn, say); they do not count.
    """

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    undefined: np.ndarray


def cluster_bootstrap(
    statistic: Statistic, clusters, *, seed: int, draws: int = 2000, level: float = 0.95, block: int = 2**22
) -> Interval:
    """The percentile interval of a statistic when whole clusters are drawn anew, with replacement.

    Captions or boxes of one image, and images of one patient, are not independent: drawing them one by one makes
    intervals too narrow. A draw takes as many clusters as there are, each with all of its items. It says how the
    statistic would vary with other test items, for the SAME trained model; how it varies with the training's seed is
    another question. For retrieval, draw the queries and keep their ranks: the candidates stay.

    A draw is given as multiplicities: an item whose cluster was drawn twice counts twice; :func:`mean_of` is such a statistic.
    Draws depend on the seed and the number of clusters alone: two methods on the same items see the same draws, so the difference
    of two statistics has a paired interval.

    Args:
        statistic: maps int64 multiplicities (r, n) to values (r,) or (r, K).
        clusters: (n,) which cluster each item belongs to: integers or strings.
        seed: of the draws.
        draws: how many.
        level: coverage aimed at, in (0, 1).
        block: multiplicities held at once; it bounds the memory and does not change the result.

    Returns:
        Estimate and interval: scalars, or (K,) each.

    Raises:
        ValueError: if there are fewer than two clusters, no draws, the level is not in (0, 1), or the statistic is
            undefined in every draw.

    Example:
        >>> values, patients = np.array([1.0, 1.0, 5.0, 3.0]), ["a", "a", "b", "c"]
        >>> interval = cluster_bootstrap(mean_of(values), patients, seed=0)
        >>> float(interval.estimate), float(interval.low), float(interval.high)
        (2.5, 1.0, 5.0)
    """
    names, own = np.unique(as_array(clusters), return_inverse=True)
    if len(names) < 2 or own.ndim != 1:
        raise ValueError(
            f"{len(names)} clusters of {own.shape} items, expected at least two clusters and one for each of (n,) items"
        )
    if draws < 1 or not 0 < level < 1:
        raise ValueError(f"draws is {draws} and level is {level}, expected at least 1 and between 0 and 1")
    generator = np.random.default_rng(seed_for(seed, "bootstrap"))
    even = np.full(len(names), 1 / len(names))
    step = max(1, block // len(own))
    values = np.concatenate(
        [
            statistic(generator.multinomial(len(names), even, size=min(step, draws - start))[:, own])
            for start in range(0, draws, step)
        ]
    )
    undefined = np.isnan(values).mean(0)
    if (undefined == 1).any():
        raise ValueError("the statistic is NaN in every draw; are there items of both kinds?")
    tail = (1 - level) / 2
    low, high = np.nanquantile(values, [tail, 1 - tail], axis=0)
    return Interval(statistic(np.ones((1, len(own)), np.int64))[0], low, high, undefined)


def mean_of(values) -> Statistic:
    """The mean of items: an accuracy from hits, a recall from ranks ≤ k, a mean overlap.

    Args:
        values: (n,), or (n, K) for K means at once; NaN where an item has no value.

    Example:
        >>> mean_of([1.0, 5.0])(np.array([[1, 1], [3, 1]])).tolist()
        [3.0, 2.0]
    """
    values = as_array(values).astype(np.float64)
    known = ~np.isnan(values)
    filled = np.where(known, values, 0)

    def statistic(multiplicities: np.ndarray) -> np.ndarray:
        counts = multiplicities @ known.astype(np.float64)
        with np.errstate(invalid="ignore"):
            return multiplicities @ filled / counts

    return statistic

"""Bootstrap intervals for statistics over test items such as anchors."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from trueneg.randomness import seed_for


class Interval(NamedTuple):
    """Estimate of a statistic with its bootstrap interval."""

    estimate: float
    low: float
    high: float


def bootstrap(
    statistic: Callable[[ndarray], ndarray],
    count: int,
    *,
    seed: int,
    draws: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Compute the percentile interval of a statistic by drawing items with replacement.

    The interval shows how the statistic would vary with other test items, for the SAME trained
    model. Draws depend only on the seed and the number of items: two methods on the same items use
    the same draws, so the interval of their difference is paired.

    Args:
        statistic: maps int64 multiplicities (r, n) of n items in r draws to one value per draw
            (r,); NaN values are ignored.
        count: n, the number of items.
        seed: seed for the draws.
        draws: number of draws.
        level: nominal coverage, in (0, 1).

    Example:
        >>> values = np.array([1.0, 3.0, 5.0])
        >>> interval = bootstrap(lambda multiplicities: multiplicities @ values / 3, 3, seed=0)
        >>> float(interval.estimate), float(interval.low), float(interval.high)
        (3.0, 1.0, 5.0)
    """
    generator = np.random.default_rng(seed_for(seed, "bootstrap"))
    values = statistic(generator.multinomial(count, np.full(count, 1 / count), size=draws))
    tail = (1 - level) / 2
    low, high = np.nanquantile(values, [tail, 1 - tail])
    return Interval(statistic(np.ones((1, count), np.int64))[0], low, high)

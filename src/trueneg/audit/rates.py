"""The share of false negatives among the pairs of a table, from the ratings of a sample of them.

All intervals hold for samples of :func:`trueneg.audit.sampling.draw`: within a range of ranks, all
pairs have the same chance, and no two pairs have the anchor or the group in common, so that ratings
are independent.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy import special

LEVEL = 0.95
TINY = 1e-12  # against division by zero
LEAST = 5  # ratings that each opinion of a judge needs in a range


class Rate(NamedTuple):
    """A share with its interval.

    Attributes:
        share: the estimate for the ranges that have ratings; in the middle between counting all
            unsure ratings as false negatives and none. NaN without ratings.
        low, high: ends of the interval for all ranges, which covers both ways to count them.
        pairs: number of ratings, with the unsure ones.
        unsure: number of unsure ratings.
        unrated: share of the pairs that are in ranges without ratings.
    """

    share: float
    low: float
    high: float
    pairs: int
    unsure: int
    unrated: float = 0.0


class Threshold(NamedTuple):
    """What a filter that removes all pairs with at least some score does.

    Attributes:
        value: the score.
        removed: share of the table's pairs that are removed.
        precision: share of false negatives among the removed pairs.
        recall: share of the table's false negatives that are removed; its ``pairs`` are the false
            and the unsure ones.
        left: share of false negatives among the other pairs.
    """

    value: float
    removed: float
    precision: Rate
    recall: Rate
    left: Rate


def rate(verdicts: ndarray, ranges: ndarray, sizes: ndarray, level: float = LEVEL) -> Rate:
    """Estimate the share of false negatives in a table, or in some of its ranges.

    The share is the mean over the ranges that have ratings, weighted by their sizes. The interval
    allows any share in the others.

    Args:
        verdicts: (n,) 1: false negative, 0: true negative, NaN: unsure.
        ranges: (n,) the range of each rated pair, less than H.
        sizes: (H,) number of the table's pairs in each range; 0 leaves out a range and its ratings.
        level: of the interval.
    """
    is_part = sizes > 0
    rated, unsure, false = (
        np.bincount(ranges, values, minlength=len(sizes)) * is_part
        for values in (None, np.isnan(verdicts), verdicts == 1)
    )
    low, _ = limits(false, rated, sizes, level)
    _, high = limits(false + unsure, rated, sizes, level)
    known = np.where(rated > 0, sizes, 0)
    shares = (false + unsure / 2) / np.maximum(rated, 1)
    share = np.average(shares, weights=known) if rated.any() else np.nan
    unrated = 1 - known.sum() / max(sizes.sum(), TINY)
    return Rate(
        share=float(share),
        low=float(low),
        high=float(high),
        pairs=int(rated.sum()),
        unsure=int(unsure.sum()),
        unrated=float(unrated),
    )


def in_batch_bound(verdicts: ndarray, ranges: ndarray, sizes: ndarray, candidates: float) -> float:
    """Bound the share of false negatives among random in-batch negatives from above, with a
    confidence of 95 %.

    It assumes that pairs beyond the last range are not false more often than those in it.

    Args:
        verdicts, ranges, sizes: as in :func:`rate`.
        candidates: number of all pairs of an anchor and another sample, the table's included.
    """
    extended = sizes.astype(float)
    extended[sizes.nonzero()[0][-1]] += candidates - sizes.sum()
    return rate(verdicts, ranges, extended, 2 * LEVEL - 1).high


def thresholds(
    scores: ndarray, ranges: ndarray, rows: ndarray, verdicts: ndarray, values: Sequence[float]
) -> list[Threshold]:
    """Estimate the precision and the recall of several thresholds, and how false the rest is.

    All intervals hold together with a probability of 95 % (Bonferroni), so that a threshold may be
    chosen by them. Recall refers to the false negatives in the table.

    Args:
        scores: (N,) what the filter compares of each pair of the table: its similarity, or its
            similarity relative to that of the positive.
        ranges: (N,) range of ranks of each pair.
        rows: (n,) rows of the table that were rated.
        verdicts: (n,) their ratings, as in :func:`rate`.
        values: thresholds, of several filters or of one; pairs with at least this score are
            removed.
    """
    level = 1 - (1 - LEVEL) / (3 * len(values))
    of_rated = ranges[rows]
    sizes = np.bincount(ranges)
    weights = (sizes / np.maximum(np.bincount(of_rated, minlength=len(sizes)), 1))[of_rated]
    table = []
    for value in values:
        is_removed = scores >= value
        above = is_removed[rows]
        removed = np.bincount(ranges[is_removed], minlength=len(sizes))
        precision = rate(verdicts[above], of_rated[above], removed, level)
        recall = _recall(verdicts, above, weights, level)
        left = rate(verdicts[~above], of_rated[~above], sizes - removed, level)
        table.append(Threshold(value, float(is_removed.mean()), precision, recall, left))
    return table


def _recall(verdicts: ndarray, above: ndarray, weights: ndarray, level: float) -> Rate:
    """Return the weighted share of the false negatives above a threshold, with the interval of Korn
    and Graubard (1998): that of Clopper and Pearson for the effective number of ratings.

    The lower end counts the unsure ratings below the threshold only, the upper end those above.
    Ranges of the table without ratings are left out.
    """
    unsure = np.isnan(verdicts)
    is_false = verdicts == 1
    ends = []
    for side in (~above, above):
        false = weights * (is_false | unsure & side)
        effective = false.sum() ** 2 / max((false**2).sum(), TINY)
        ends.append(
            _upper(effective * false[side].sum() / max(false.sum(), TINY), effective, level)
        )
    counted = weights * (is_false + unsure / 2)
    share = counted[above].sum() / counted.sum() if counted.any() else np.nan
    pairs = int(np.count_nonzero(counted))
    return Rate(float(share), float(1 - ends[0]), float(ends[1]), pairs, int(unsure.sum()))


def rate_with_judge(
    verdicts: ndarray, opinions: ndarray, ranges: ndarray, sizes: ndarray, judged: ndarray
) -> Rate:
    r"""Estimate the share of false negatives from a person's ratings and a judge's opinions on more
    pairs.

    A range is split by the judge's opinion. For opinions of two kinds this is prediction-powered
    inference (Angelopoulos et al., 2023) with the best :math:`\lambda` of PPI++ in each range: a
    judge who is often wrong costs nothing. A range is not split where an opinion has fewer than
    five ratings, or the judge has seen fewer pairs than the person: without any split, the result
    is that of :func:`rate`.

    Args:
        verdicts, ranges, sizes: as in :func:`rate`.
        opinions: (n,) bool, what the judge calls the person's pairs: false negatives or not.
        judged: (H, 2) number of pairs that the judge calls true negatives, and false ones, by
            range: of another sample with equal chances, or of the whole table.
    """
    count = len(sizes)
    cells = np.bincount(2 * ranges + opinions, minlength=2 * count).reshape(count, 2)
    totals = np.maximum(judged.sum(axis=1), 1)
    is_split = (cells.min(axis=1) >= LEAST) & (totals >= cells.sum(axis=1))
    shares = np.where(is_split, judged[:, 1] / totals, 0)
    parts = sizes * np.stack([1 - shares, shares], axis=1).T
    found = rate(verdicts, ranges + count * (opinions & is_split[ranges]), parts.ravel())
    # the error of the shares of the opinions, which are known for the judge's pairs only
    false = np.bincount(2 * ranges + opinions, np.nan_to_num(verdicts, nan=0.5), 2 * count)
    by_opinion = (false.reshape(count, 2) + 0.5) / (cells + 1)
    variance = shares * (1 - shares) / totals * np.maximum(1 - totals / np.maximum(sizes, 1), 0)
    errors = sizes / sizes.sum() * np.diff(by_opinion).ravel() * np.sqrt(variance)
    error = special.ndtri((1 + LEVEL) / 2) * np.linalg.norm(errors)
    return found._replace(
        low=max(found.share - np.hypot(found.share - found.low, error), 0.0),
        high=min(found.share + np.hypot(found.high - found.share, error), 1.0),
    )


def limits(
    false: ndarray, rated: ndarray, sizes: ndarray, level: float = LEVEL
) -> tuple[ndarray, ndarray]:
    r"""Return the ends of an interval for a share, from ratings in strata.

    The upper limit adds a false rating to the stratum r whose ratings have the largest weight
    :math:`w_h = N_h / (N n_h)`, so that the share is :math:`q_h = (x_h + [h = r]) / n_h`, and is
    the limit of Clopper and Pearson (1934) for as many ratings :math:`n^*` as have this mean and
    variance:

    .. math::

        m = \sum_h n_h w_h q_h, \qquad
        \frac{m (1 - m)}{n^*} = \sum_h n_h w_h^2 q_h (1 - q_h), \qquad
        x^* + 1 = n^* m.

    The lower limit is that of the complement. With one stratum this is the interval of Clopper and
    Pearson; for Poisson counts Fay and Feuer (1997) add the largest weight in the same way. A
    stratum without ratings may have any share.

    Args:
        false: (…, H) number of false negatives.
        rated: (…, H) number of ratings.
        sizes: (…, H) number of pairs.
    """
    ends = []
    for counted in (rated - false, false):
        known = np.where(rated > 0, sizes, 0)
        share = known.sum(-1) / np.maximum(sizes.sum(-1), TINY)
        shares = known / np.maximum(known.sum(-1, keepdims=True), TINY)
        weights = shares / np.maximum(rated, 1)
        room = weights * (counted < rated)
        is_raised = np.arange(room.shape[-1]) == room.argmax(-1)[..., None]
        q = np.minimum((counted + is_raised) / np.maximum(rated, 1), 1)
        mean = (shares * q).sum(-1)
        variance = (weights * shares * q * (1 - q)).sum(-1)
        largest = room.max(-1)
        # without variance: as many ratings as the largest weight stands for
        spread = mean * (1 - mean) / np.maximum(variance, TINY)
        effective = np.where(variance > TINY, spread, 1 / np.maximum(largest, TINY))
        limit = np.where(largest > 0, _upper(effective * mean - 1, effective, level), 1)
        ends.append(share * limit + 1 - share)
    return 1 - ends[0], ends[1]


def _upper(false: ndarray, rated: ndarray, level: float) -> ndarray:
    """Return the upper limit of Clopper and Pearson; the numbers need not be integers."""
    above = np.maximum(rated - false, TINY)
    limit = special.betaincinv(false + 1, above, (1 + level) / 2)
    return np.where(false < rated, limit, 1)

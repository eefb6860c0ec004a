"""The share of false negatives among the pairs of a table, from the ratings of a sample of them.

All intervals hold for samples of :func:`trueneg.audit.sampling.draw`: within a range of ranks, all
pairs have the same chance, and no two pairs have the anchor or the group in common.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy import stats

LEVEL = 0.95


class Rate(NamedTuple):
    """A share with its interval.

    Attributes:
        share: the estimate; in the middle between counting all unsure ratings as false negatives
            and none.
        low, high: ends of the interval, which covers both ways to count them.
        pairs: number of rated pairs, with the unsure ones.
        unsure: number of unsure ratings.
    """

    share: float
    low: float
    high: float
    pairs: int
    unsure: int


class Threshold(NamedTuple):
    """What removing all pairs with at least some score does.

    Attributes:
        value: the score.
        removed: share of the table's pairs that are removed.
        precision: share of false negatives among the removed pairs.
        recall: share of the table's false negatives that are removed.
    """

    value: float
    removed: float
    precision: Rate
    recall: Rate


def rate(verdicts: ndarray, ranges: ndarray, sizes: ndarray) -> Rate:
    """Estimate the share of false negatives in a table, or in some of its ranges.

    Args:
        verdicts: (n,) 1: false negative, 0: true negative, NaN: unsure.
        ranges: (n,) the range of each rated pair, less than H.
        sizes: (H,) number of the table's pairs in each range; 0: a range that is left out, with its
            ratings.
    """
    return _rate(verdicts, ranges, sizes, LEVEL)


def in_batch_bound(verdicts: ndarray, ranges: ndarray, sizes: ndarray, candidates: float) -> float:
    """Bound the share of false negatives among random in-batch negatives from above (95 %).

    It assumes that pairs beyond the last range are not false more often than those in it.

    Args:
        verdicts, ranges, sizes: as in :func:`rate`.
        candidates: number of all pairs of an anchor and another sample, the table's included.
    """
    extended = sizes.astype(float)
    extended[-1] += candidates - sizes.sum()
    return _rate(verdicts, ranges, extended, 2 * LEVEL - 1).high


def thresholds(
    scores: ndarray, ranges: ndarray, rows: ndarray, verdicts: ndarray, values: Sequence[float]
) -> list[Threshold]:
    """Estimate the precision and the recall of several thresholds.

    All intervals hold together with a probability of 95 %, so that a threshold may be chosen by
    them. Recall refers to the false negatives in the table.

    Args:
        scores: (N,) for each pair of the table, what the filter compares: its similarity, or its
            similarity relative to that of the positive.
        ranges: (N,) range of ranks of each pair.
        rows: (n,) rows of the table that were rated.
        verdicts: (n,) their ratings, as in :func:`rate`.
        values: thresholds; pairs with at least this score are removed.
    """
    level = 1 - (1 - LEVEL) / (2 * len(values))
    found = []
    for value in values:
        is_removed = scores >= value
        removed, kept = (
            _rate(verdicts[part[rows]], ranges[rows][part[rows]], _sizes(ranges, part), level)
            for part in (is_removed, ~is_removed)
        )
        found.append(
            Threshold(
                float(value),
                float(is_removed.mean()),
                removed,
                _recall(removed, kept, float(is_removed.mean())),
            )
        )
    return found


def rate_with_judge(
    verdicts: ndarray,
    opinions: ndarray,
    ranges: ndarray,
    sizes: ndarray,
    judged: ndarray,
) -> Rate:
    """Estimate the share of false negatives from a person's ratings and a judge's opinions on more
    pairs.

    Args:
        verdicts, ranges, sizes: as in :func:`rate`.
        opinions: (n,) bool, the judge's opinion on the person's pairs: is it a false negative?
        judged: (H, 2) number of the judge's pairs by range and opinion, of a sample of their own or
            of the whole table; those of the person included or not.
    """
    cells = 2 * ranges + opinions
    counts = judged.sum(axis=1, keepdims=True)
    parts = sizes[:, None] * judged / np.maximum(counts, 1)
    return _rate(verdicts, cells, parts.ravel(), LEVEL)


def _sizes(ranges: ndarray, part: ndarray) -> ndarray:
    return np.bincount(ranges[part], minlength=ranges.max() + 1)


def _recall(removed: Rate, kept: Rate, share: float) -> Rate:
    """Return the share of the false negatives that are among the removed pairs."""

    def ratio(above: float, below: float) -> float:
        total = share * above + (1 - share) * below
        return float(share * above / total) if total else np.nan

    return removed._replace(
        share=ratio(removed.share, kept.share),
        low=ratio(removed.low, kept.high),
        high=ratio(removed.high, kept.low),
    )


def _rate(verdicts: ndarray, ranges: ndarray, sizes: ndarray, level: float) -> Rate:
    count = len(sizes)
    is_unsure = np.isnan(verdicts)
    rated = np.bincount(ranges, minlength=count) * (sizes > 0)
    unsure = np.bincount(ranges, is_unsure, minlength=count) * (sizes > 0)
    false = np.bincount(ranges, verdicts == 1, minlength=count) * (sizes > 0)
    low, _ = limits(false, rated, sizes, level)
    _, high = limits(false + unsure, rated, sizes, level)
    weights = sizes / np.maximum(rated, 1) / max(sizes.sum(), 1)
    share = ((false + unsure / 2) * weights).sum()
    return Rate(float(share), float(low), float(high), int(rated.sum()), int(unsure.sum()))


def limits(
    false: ndarray, rated: ndarray, sizes: ndarray, level: float = LEVEL
) -> tuple[ndarray, ndarray]:
    r"""Return the ends of an interval for a share from ratings in strata.

    With weights :math:`w_h = N_h / (N n_h)`, the upper limit is that of Clopper and Pearson (1934)
    for :math:`n^* = 1 / w^*` ratings with :math:`x^*` false ones,

    .. math::

        x^* + 1 = \frac{\sum_h w_h x_h + w_\text{max}}{w^*}, \qquad
        w^* = \frac{\sum_h w_h^2 x_h + w_\text{max}^2}{\sum_h w_h x_h + w_\text{max}},

    as Fay and Feuer (1997) do for Poisson counts; the lower limit is that of the complement. With
    one stratum, it is the interval of Clopper and Pearson. A stratum without ratings may have any
    share.

    Args:
        false: (…, H) number of false negatives.
        rated: (…, H) number of ratings.
        sizes: (…, H) number of pairs.
    """
    return 1 - _upper(rated - false, rated, sizes, level), _upper(false, rated, sizes, level)


def _upper(false: ndarray, rated: ndarray, sizes: ndarray, level: float) -> ndarray:
    known = np.where(rated > 0, sizes, 0)
    weights = known / np.maximum(rated, 1) / np.maximum(known.sum(-1, keepdims=True), 1)
    largest = (weights * (false < rated)).max(-1)
    total = (weights * false).sum(-1) + largest
    effective = ((weights**2 * false).sum(-1) + largest**2) / np.where(total > 0, total, 1)
    effective = np.where(effective > 0, effective, 1)
    shape = total / effective
    limit = stats.beta.ppf((1 + level) / 2, shape, 1 / effective + 1 - shape)
    limit = np.where(largest > 0, limit, 1)
    share = known.sum(-1) / np.maximum(sizes.sum(-1), 1)
    return share * limit + 1 - share

"""Measure how well scores separate an anchor's false negatives, as determined by human ratings,
from its true negatives.

Flickr8k's experts rated from 1 to 4 how well captions describe images. Most are captions of OTHER
images, which a batch would treat as negatives. An image and another image's caption form a **false
negative** if the mean of their three ratings is above :data:`THRESHOLD`; :data:`SENSITIVITY` lists
further thresholds that show the effect of this choice.

The data are 5,822 rated pairs, all from the official test split; 158 of them pair an image with its
own caption and are left out. Of the other 5,664, 17.3 %, 11.6 % and 4.0 % are false negatives at 2,
2.5 and 3. Both kinds of anchors have enough candidates. *Image anchors*: 1,000, each with 1 to 10
captions (median 6); 407 have both kinds of negatives at 2.5. *Text anchors*: 972 captions, each the
third of its image's five, with 1 to 34 images (median 5); 313 have both kinds, and these have more
candidates (8.2 on average, compared with 5.5). Sample-Specific Debiasing (2023) uses text anchors.

**Selection.** The pairs were not drawn at random: a retrieval system proposed the caption for the
image. The share of false negatives is therefore the share among near negatives, which are harder to
tell apart. Probabilities are compared with the share among RATED pairs; a probability that is right
for a batch may be too low here. An anchor's rate of false negatives refers to its retrieved
candidates only.

**Experts.** The file lists the three ratings of each pair in ascending order, so it is unknown
which expert gave which rating. Results with one expert left out are therefore averaged over all
three choices (:func:`expert_agreement`).
"""

import numpy as np
from numpy import ndarray
from pandas import DataFrame
from scipy.stats import rankdata

from trueneg.evaluation.bootstrap import Interval, bootstrap

THRESHOLD = 2.5
SENSITIVITY = (2.0, 3.0)
RATINGS = ["rating 1", "rating 2", "rating 3"]


def false_negatives(ratings, threshold: float = THRESHOLD) -> ndarray:
    """Return whether the mean of each pair's ratings is above the threshold.

    Args:
        ratings: (n, 3), from 1 (does not describe the image at all) to 4 (describes it).
        threshold: in [1, 4).

    Returns:
        bool, (n,).

    Example:
        >>> false_negatives([[2, 3, 3], [2, 2, 3]]).tolist()
        [True, False]
    """
    ratings = np.asarray(ratings)
    # Compare integer sums, so that rounding cannot push a mean above the threshold.
    return ratings.sum(1) > ratings.shape[1] * threshold


def areas_within_anchors(scores, false, anchors) -> DataFrame:
    r"""Measure for each anchor how well the score separates its false negatives from its true
    negatives.

    .. math:: \mathrm{AUC}_a = \frac{1}{|F_a||T_a|} \sum_{i \in F_a} \sum_{j \in T_a}
              \bigl([s_i > s_j] + \tfrac12 [s_i = s_j]\bigr)

    A score that is constant within an anchor, such as the anchor's η, has an AUC of ½ by
    construction.

    Args:
        scores: (n,); larger values: more likely a false negative.
        false: (n,) bool, whether each pair is a false negative.
        anchors: (n,) the anchor of each pair: integers or strings.

    Returns:
        One row per anchor with both kinds of negatives, sorted by anchor: ``anchor``, ``area`` (the
            AUC), and ``comparisons``, the number of pairs of a false and a true negative.

    Example:
        >>> areas_within_anchors(
        ...     [0.1, 0.4, 0.4, 9.0], [False, True, False, True], ["a", "a", "a", "b"]
        ... ).values.tolist()
        [['a', 0.75, 2]]
    """
    scores = np.asarray(scores)
    if np.isnan(scores).any():
        raise ValueError(f"{np.isnan(scores).sum()} of {len(scores)} scores are NaN")
    return _areas(_comparisons(scores, np.asarray(false, bool), np.asarray(anchors)))


def expert_agreement(ratings, anchors, threshold: float = THRESHOLD) -> DataFrame:
    """Estimate the ceiling: how well ONE expert's rating ranks, within an anchor, false negatives
    determined by the other two.

    The result is the mean over the nine ways to leave one expert out of each of the two compared
    pairs, because the file does not record who gave which rating. Ratings have only four levels, so
    ties are frequent; they count one half.

    Args:
        ratings: (n, 3), from 1 to 4.
        anchors: (n,) the anchor of each pair.
        threshold: threshold for the mean of the other two ratings.

    Returns:
        See :func:`areas_within_anchors`; ``comparisons`` are counted over the nine ways.

    Example:
        >>> expert_agreement([[4, 4, 4], [1, 1, 1], [4, 4, 4]], ["a", "a", "b"])["area"].tolist()
        [1.0]
    """
    ratings = np.asarray(ratings)
    pairs, experts = ratings.shape
    # Each pair has one sample per expert left out, and can be a false or a true negative. It is not
    # compared with itself.
    others = ratings.sum(1, keepdims=True) - ratings
    false = (others > (experts - 1) * threshold).ravel()
    within_pairs = _comparisons(ratings.ravel(), false, np.arange(pairs).repeat(experts))
    within_anchors = _comparisons(ratings.ravel(), false, np.repeat(anchors, experts))
    return _areas(within_anchors - within_pairs.groupby(np.asarray(anchors)).sum())


def _comparisons(scores: ndarray, false: ndarray, groups: ndarray) -> DataFrame:
    """Compare all false with all true negatives of each group: ``wins`` of the false ones (a tie is
    half) and ``comparisons``.
    """
    table = DataFrame({"group": groups, "score": scores, "false": false})
    # Mann–Whitney: the sum of the false negatives' ranks within a group, with average ranks for
    # ties, gives the wins.
    table["rank"] = table.groupby("group")["score"].rank() * table["false"]
    sums = table.groupby("group").agg(
        samples=("false", "size"), false=("false", "sum"), ranks=("rank", "sum")
    )
    return DataFrame(
        {
            "wins": sums["ranks"] - sums["false"] * (sums["false"] + 1) / 2,
            "comparisons": sums["false"] * (sums["samples"] - sums["false"]),
        }
    )


def _areas(compared: DataFrame) -> DataFrame:
    """Return the AUCs of all anchors with at least one comparison; the table is indexed by
    anchor.
    """
    compared = compared[compared["comparisons"] > 0].rename_axis("anchor").reset_index()
    return compared.assign(area=compared["wins"] / compared["comparisons"])[
        ["anchor", "area", "comparisons"]
    ]


def mean_area(areas: DataFrame, *, seed: int, weighted: bool = False) -> Interval:
    """Compute the mean of the anchors' AUCs with its 95 % bootstrap interval over anchors.

    The interval shows how the mean would vary with other anchors, for the same networks. Anchors
    share candidates (an image is rated with several captions), which resampling anchors alone
    ignores, so the interval is somewhat too narrow.

    Args:
        areas: AUCs of at least two anchors (:func:`areas_within_anchors`).
        seed: seed for the bootstrap.
        weighted: weight anchors by their number of comparisons, which gives the share of
            comparisons won; otherwise all anchors have equal weight.
    """
    weights = areas["comparisons"].to_numpy(np.float64) if weighted else np.ones(len(areas))
    won = areas["area"].to_numpy() * weights
    return bootstrap(
        lambda multiplicities: (multiplicities @ won) / (multiplicities @ weights),
        len(areas),
        seed=seed,
    )


def calibration(probabilities, false, bins: int = 10) -> DataFrame:
    """Compare implied probabilities of a false negative with the share rated false, in bins of
    about equal size.

    Equal probabilities share a bin, so there may be fewer bins than requested; a constant
    probability gives one bin.

    Args:
        probabilities: (n,) in [0, 1].
        false: (n,) bool, whether each pair is a false negative.
        bins: maximum number of bins.

    Returns:
        One row per non-empty bin: ``bin``, ``pairs``, ``implied`` (mean probability), ``rated``
            (share of false negatives).

    Example:
        >>> calibration([0.0, 0.0, 0.5, 0.5], [False, False, True, False], bins=2)["rated"].tolist()
        [0.0, 0.5]
    """
    places = (rankdata(probabilities) - 0.5) / len(probabilities)
    table = DataFrame({"bin": places * bins, "implied": probabilities, "rated": false})
    table["bin"] = np.floor(table["bin"]).astype(np.int64)
    by_bin = table.astype({"rated": float}).groupby("bin")
    means = by_bin[["implied", "rated"]].mean()
    return means.assign(pairs=by_bin.size()).reset_index()[["bin", "pairs", "implied", "rated"]]


def calibration_error(bins: DataFrame) -> float:
    """Expected calibration error: the mean absolute difference between the implied and the rated
    share of each bin.

    Each bin is weighted by its number of pairs.

    Args:
        bins: table returned by :func:`calibration`.

    Example:
        >>> calibration_error(calibration([0.25] * 4, [True, False, False, False]))
        0.0
    """
    return float(np.average((bins["implied"] - bins["rated"]).abs(), weights=bins["pairs"]))


def rates_by_anchor(ratings, anchors) -> DataFrame:
    """Compute the rate of false negatives and the mean rating of each anchor's candidates.

    Args:
        ratings: (n, 3), from 1 to 4.
        anchors: (n,) the anchor of each pair.

    Returns:
        One row per anchor, sorted by anchor: ``anchor``, ``pairs``, ``rate`` (share of false
            negatives), ``mean rating``.
    """
    table = DataFrame({"rate": false_negatives(ratings), "mean rating": np.mean(ratings, axis=1)})
    by_anchor = table.groupby(np.asarray(anchors))
    means = by_anchor.mean().rename_axis("anchor")
    means.insert(0, "pairs", by_anchor.size())
    return means.reset_index()


def rank_correlation(first, second, *, seed: int) -> Interval:
    """Compute Spearman's ρ with its 95 % bootstrap interval over the pairs of values; ties get
    average ranks.

    Args:
        first: (n,), one value per anchor, such as its η.
        second: (n,), one value per anchor, such as its rate of false negatives.
        seed: seed for the bootstrap.

    Returns:
        The interval; NaN if all values of either variable are equal.
    """
    sides = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if any(len(set(values)) < 2 for values in sides):
        return Interval(np.nan, np.nan, np.nan)
    count = len(sides[0])

    def spearman(multiplicities: ndarray) -> ndarray:
        drawn = np.repeat(
            np.tile(np.arange(count), len(multiplicities)), multiplicities.ravel()
        ).reshape(-1, count)
        x, y = (rankdata(values[drawn], axis=1) - (count + 1) / 2 for values in sides)
        with np.errstate(invalid="ignore"):  # all values drawn may be equal
            return (x * y).sum(1) / np.sqrt((x**2).sum(1) * (y**2).sum(1))

    return bootstrap(spearman, count, seed=seed)

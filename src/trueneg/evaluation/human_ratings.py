"""How well a score ranks, for an anchor, the negatives that people call false.

Flickr8k's experts rated from 1 to 4 how well captions describe images, most of them captions of OTHER images: candidates that a
batch would take as negatives. A pair of an image and another image's caption is a **false negative** where the mean of its three
ratings is above :data:`THRESHOLD`; :data:`SENSITIVITY` are the thresholds that show what the choice does.

The data (5,822 rated pairs, all of the official test split): 158 are an image with its own caption and are left out. Of the
5,664 others, 17.3 %, 11.6 % and 4.0 % are false negatives at 2, 2.5 and 3. Both sides have candidates enough. *Image anchors*:
1,000, each with 1 to 10 captions (median 6), 407 of them with both kinds of negatives at 2.5. *Text anchors*: 972 captions, all
the third of their image's five, each with 1 to 34 images (median 5), 313 of them with both kinds, and these have more candidates
(8.2 on average against 5.5). Text anchors are those of the first paper's loss.

**Selection.** The pairs were not drawn at random: a caption was put beside an image because a retrieval system found it there.
So the share of false negatives is that among near negatives, and a score is asked to tell near negatives apart. A probability is
compared with the share among RATED pairs, and may be right for a batch and too low here. An anchor's rate is that among what was
retrieved for it.

**Experts.** The file has every pair's three ratings in ascending order: which expert gave which is lost, so one expert is taken
out in all three ways (:func:`expert_agreement`).
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from trueneg.evaluation.bootstrap import Interval, Statistic, cluster_bootstrap, mean_of

THRESHOLD = 2.5
SENSITIVITY = (2.0, 3.0)
BINS = 10
RATINGS = ["rating 1", "rating 2", "rating 3"]


class AnchorAreas(NamedTuple):
    """The area under the ROC curve of every anchor that has false and true negatives; A of them.

    Attributes:
        anchors: (A,) which, ascending.
        areas: (A,) share of its pairs of a false and a true negative in which the false one has the larger score.
        comparisons: (A,) how many such pairs it has.
    """

    anchors: np.ndarray
    areas: np.ndarray
    comparisons: np.ndarray


def false_negatives(ratings, threshold: float = THRESHOLD) -> np.ndarray:
    """Whether the mean of a pair's ratings is above the threshold.

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
    # A sum of integers: 7.5 is above no mean of three by rounding alone.
    return ratings.sum(1) > ratings.shape[1] * threshold


def areas_within_anchors(scores, false, anchors) -> AnchorAreas:
    r"""For each anchor, how well the score tells its false negatives from its true ones.

    .. math:: \mathrm{AUC}_a = \frac{1}{|F_a||T_a|} \sum_{i \in F_a} \sum_{j \in T_a}
              \bigl([s_i > s_j] + \tfrac12 [s_i = s_j]\bigr)

    A score that is constant within an anchor, such as the η of the anchor, has ½ by construction.

    Args:
        scores: (n,), larger: likelier a false negative.
        false: (n,) bool, which pairs are false negatives.
        anchors: (n,) the anchor of each pair: integers or strings.

    Returns:
        The anchors that have both kinds; there may be none.

    Example:
        >>> found = areas_within_anchors([0.1, 0.4, 0.4, 9.0], [False, True, False, True], ["a", "a", "a", "b"])
        >>> found.anchors.tolist(), found.areas.tolist(), found.comparisons.tolist()
        (['a'], [0.75], [2])
    """
    scores, false, anchors = np.asarray(scores, np.float64), np.asarray(false, bool), np.asarray(anchors)
    if np.isnan(scores).any():
        raise ValueError(f"{np.isnan(scores).sum()} of {len(scores)} scores are NaN, expected a number for every pair.")
    names, own = np.unique(anchors, return_inverse=True)
    counts, positives = np.bincount(own, minlength=len(names)), np.bincount(own, false, minlength=len(names))
    comparisons = positives * (counts - positives)
    # Mann and Whitney: an anchor's sum of ranks of the false ones, ties sharing theirs, tells the comparisons won.
    order = np.lexsort((scores, own))
    changed = (np.diff(own[order], prepend=-1) != 0) | (np.diff(scores[order], prepend=np.nan) != 0)
    starts = np.flatnonzero(changed)
    ends = np.append(starts[1:], len(order))
    ranks = np.empty(len(order))
    ranks[order] = np.repeat((starts + 1 + ends) / 2, ends - starts)
    ranks -= (counts.cumsum() - counts)[own]
    wins = np.bincount(own, ranks * false, minlength=len(names)) - positives * (positives + 1) / 2
    both = comparisons > 0
    return AnchorAreas(names[both], wins[both] / comparisons[both], comparisons[both].astype(np.int64))


def expert_agreement(ratings, anchors, threshold: float = THRESHOLD) -> AnchorAreas:
    """The ceiling: how well ONE expert's rating ranks what is false by the mean of the other two, within each anchor.

    The mean over all ways to take one expert out of each of the two pairs that are compared (nine), as the file does not say who
    gave which rating. Ratings are of four steps, so many are equal; ties count one half.

    Args:
        ratings: (n, 3), from 1 to 4.
        anchors: (n,) the anchor of each pair.
        threshold: of the mean of the other two.

    Returns:
        As :func:`areas_within_anchors`; ``comparisons`` are counted over the nine ways.

    Example:
        >>> expert_agreement([[4, 4, 4], [1, 1, 1], [4, 4, 4]], ["a", "a", "b"]).areas.tolist()
        [1.0]
    """
    ratings = np.asarray(ratings)
    anchors = np.asarray(anchors)
    others = (ratings.sum(1, keepdims=True) - ratings) > (ratings.shape[1] - 1) * threshold
    names, own = np.unique(anchors, return_inverse=True)
    found = []
    for anchor in range(len(names)):
        rows = np.flatnonzero(own == anchor)
        score, false = ratings[rows].ravel(), others[rows].ravel()
        pair = np.repeat(rows, ratings.shape[1])
        # Of one pair, one expert against two may go both ways; only different pairs are compared.
        meant = false[:, None] & ~false[None] & (pair[:, None] != pair[None])
        won = (np.sign(score[:, None] - score[None]) + 1) / 2
        found.append((won[meant].sum(), meant.sum()))
    wins, comparisons = np.array(found, dtype=np.float64).reshape(-1, 2).T
    both = comparisons > 0
    return AnchorAreas(names[both], wins[both] / comparisons[both], comparisons[both].astype(np.int64))


def mean_area(found: AnchorAreas, *, seed: int, weighted: bool = False) -> Interval:
    """The mean of the anchors' areas with its 95 % bootstrap interval; whole anchors are drawn anew.

    It says how the mean would vary with other anchors, for the same networks. Anchors share candidates (an image is rated with
    several captions), which the bootstrap over one side does not know: it is somewhat too narrow.

    Args:
        found: areas, of at least two anchors.
        seed: of the bootstrap.
        weighted: by an anchor's number of comparisons: the share of all comparisons within anchors; else every anchor counts
            the same.

    """
    statistic: Statistic = mean_of(found.areas)
    if weighted:
        wins, comparisons = found.areas * found.comparisons, found.comparisons.astype(np.float64)

        def statistic(multiplicities: np.ndarray) -> np.ndarray:
            return (multiplicities @ wins) / (multiplicities @ comparisons)

    return cluster_bootstrap(statistic, found.anchors, seed=seed)


def calibration(probabilities, false, bins: int = BINS) -> pd.DataFrame:
    """Implied probabilities of being a false negative beside the rated share, in bins of about equal count.

    Equal probabilities share a bin, so there may be fewer, and a constant has one.

    Args:
        probabilities: (n,) in [0, 1].
        false: (n,) bool.
        bins: how many.

    Returns:
        A row a bin that holds any: ``bin``, ``pairs``, ``implied`` (mean probability), ``rated`` (share of false negatives).

    Example:
        >>> calibration([0.0, 0.0, 0.5, 0.5], [False, False, True, False], bins=2)["rated"].tolist()
        [0.0, 0.5]
    """
    probabilities, false = np.asarray(probabilities, np.float64), np.asarray(false, bool)
    own = np.floor((rankdata(probabilities) - 0.5) / len(probabilities) * bins).astype(np.int64)
    table = pd.DataFrame({"bin": own, "implied": probabilities, "rated": false.astype(np.float64)})
    found = table.groupby("bin").agg(pairs=("rated", "size"), implied=("implied", "mean"), rated=("rated", "mean"))
    return found.reset_index()


def calibration_error(bins: pd.DataFrame) -> float:
    """Expected calibration error: the mean distance of implied and rated share over bins, weighted by their pairs.

    Args:
        bins: of :func:`calibration`.

    Example:
        >>> calibration_error(calibration([0.25] * 4, [True, False, False, False]))
        0.0
    """
    return float(np.average((bins["implied"] - bins["rated"]).abs(), weights=bins["pairs"]))


def rates_by_anchor(ratings, anchors, threshold: float = THRESHOLD) -> pd.DataFrame:
    """What people say of each anchor's candidates as a whole.

    Args:
        ratings: (n, 3), from 1 to 4.
        anchors: (n,) the anchor of each pair.
        threshold: as for :func:`false_negatives`.

    Returns:
        A row an anchor, ascending: ``anchor``, ``pairs``, ``rate`` (share of false negatives), ``mean rating``.
    """
    ratings = np.asarray(ratings)
    table = pd.DataFrame({"anchor": np.asarray(anchors), "false": false_negatives(ratings, threshold), "rating": ratings.mean(1)})
    found = table.groupby("anchor").agg(pairs=("false", "size"), rate=("false", "mean"), mean=("rating", "mean"))
    return found.rename(columns={"mean": "mean rating"}).reset_index()


def rank_correlation(first, second, *, seed: int) -> Interval:
    """Spearman's ρ with its 95 % bootstrap interval over the pairs of values, ties sharing their ranks.

    Args:
        first: (n,), one value an anchor, such as its η.
        second: (n,), such as its rate of false negatives.
        seed: of the bootstrap.

    Returns:
        NaN where one side is constant: it has no rank to correlate.

    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if len(set(first)) < 2 or len(set(second)) < 2:
        nothing = np.float64("nan")
        return Interval(nothing, nothing, nothing, np.float64(1))

    def spearman(multiplicities: np.ndarray) -> np.ndarray:
        x, y = (_centred_ranks(multiplicities, values) for values in (first, second))
        with np.errstate(invalid="ignore"):  # all values drawn may be equal
            return (multiplicities * x * y).sum(1) / np.sqrt((multiplicities * x**2).sum(1) * (multiplicities * y**2).sum(1))

    return cluster_bootstrap(spearman, np.arange(len(first)), seed=seed)


def _centred_ranks(multiplicities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(r, n) the rank that each value has in each draw, equal ones sharing theirs, less the draw's mean rank."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)  # of runs of equal values
    counts = np.add.reduceat(multiplicities[:, order], starts, axis=1)
    middle = counts.cumsum(1) - counts / 2
    ranks = np.empty(multiplicities.shape)
    ranks[:, order] = np.repeat(middle, np.diff(starts, append=len(values)), axis=1)
    return ranks - multiplicities.sum(1, keepdims=True) / 2

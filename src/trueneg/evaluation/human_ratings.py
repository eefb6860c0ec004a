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

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from trueneg.evaluation.bootstrap import Interval, bootstrap

THRESHOLD = 2.5
SENSITIVITY = (2.0, 3.0)
BINS = 10
RATINGS = ["rating 1", "rating 2", "rating 3"]


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


def areas_within_anchors(scores, false, anchors) -> pd.DataFrame:
    r"""For each anchor, how well the score separates its false negatives from its true ones.

    .. math:: \mathrm{AUC}_a = \frac{1}{|F_a||T_a|} \sum_{i \in F_a} \sum_{j \in T_a}
              \bigl([s_i > s_j] + \tfrac12 [s_i = s_j]\bigr)

    A score that is constant within an anchor, such as the η of the anchor, has ½ by construction.

    Args:
        scores: (n,), larger: likelier a false negative.
        false: (n,) bool, which pairs are false negatives.
        anchors: (n,) the anchor of each pair: integers or strings.

    Returns:
        A row for each anchor that has both kinds, sorted: ``anchor``, ``area``, and ``comparisons``, how many pairs of a false
        and a true negative it has.

    Example:
        >>> areas_within_anchors([0.1, 0.4, 0.4, 9.0], [False, True, False, True], ["a", "a", "a", "b"]).values.tolist()
        [['a', 0.75, 2]]
    """
    table = pd.DataFrame({"anchor": np.asarray(anchors), "score": np.asarray(scores), "false": np.asarray(false, bool)})
    if table["score"].isna().any():
        raise ValueError(f"{table['score'].isna().sum()} of {len(table)} scores are NaN")
    # Mann and Whitney: an anchor's sum of ranks of the false ones, ties sharing theirs, gives the comparisons won.
    table["rank"] = table.groupby("anchor")["score"].rank() * table["false"]
    found = table.groupby("anchor").agg(pairs=("false", "size"), false=("false", "sum"), ranks=("rank", "sum"))
    wins = found["ranks"] - found["false"] * (found["false"] + 1) / 2
    return _areas(wins, found["false"] * (found["pairs"] - found["false"]))


def expert_agreement(ratings, anchors, threshold: float = THRESHOLD) -> pd.DataFrame:
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
        >>> expert_agreement([[4, 4, 4], [1, 1, 1], [4, 4, 4]], ["a", "a", "b"])["area"].tolist()
        [1.0]
    """
    ratings = np.asarray(ratings)
    others = (ratings.sum(1, keepdims=True) - ratings) > (ratings.shape[1] - 1) * threshold
    wins, comparisons = {}, {}
    for anchor, rows in pd.Series(np.arange(len(ratings))).groupby(np.asarray(anchors)):
        score, false = ratings[rows].ravel(), others[rows].ravel()
        pair = np.repeat(rows.to_numpy(), ratings.shape[1])
        # One expert against the other two may go both ways within a pair; only different pairs are compared.
        compared = false[:, None] & ~false[None] & (pair[:, None] != pair[None])
        won = (np.sign(score[:, None] - score[None]) + 1) / 2
        wins[anchor], comparisons[anchor] = won[compared].sum(), compared.sum()
    return _areas(pd.Series(wins, dtype=np.float64), pd.Series(comparisons, dtype=np.int64))


def _areas(wins: pd.Series, comparisons: pd.Series) -> pd.DataFrame:
    """The areas of the anchors, their index, that have anything to compare."""
    found = pd.DataFrame({"area": wins / comparisons, "comparisons": comparisons})
    return found[comparisons > 0].rename_axis("anchor").reset_index()


def mean_area(found: pd.DataFrame, *, seed: int, weighted: bool = False) -> Interval:
    """The mean of the anchors' areas with its 95 % bootstrap interval over anchors.

    It shows how the mean would vary with other anchors, for the same networks. Anchors share candidates (an image is rated with
    several captions), which the bootstrap over one side ignores: the interval is somewhat too narrow.

    Args:
        found: areas (:func:`areas_within_anchors`), of at least two anchors.
        seed: of the bootstrap.
        weighted: by an anchor's number of comparisons: the share of all comparisons within anchors; else every anchor counts
            the same.
    """
    weights = found["comparisons"].to_numpy(np.float64) if weighted else np.ones(len(found))
    won = found["area"].to_numpy() * weights
    return bootstrap(lambda multiplicities: (multiplicities @ won) / (multiplicities @ weights), len(found), seed=seed)


def calibration(probabilities, false, bins: int = BINS) -> pd.DataFrame:
    """Implied probabilities of being a false negative beside the rated share, in bins of about equal count.

    Equal probabilities share a bin, so there may be fewer, and a constant has one.

    Args:
        probabilities: (n,) in [0, 1].
        false: (n,) bool.
        bins: how many.

    Returns:
        A row per bin that holds any: ``bin``, ``pairs``, ``implied`` (mean probability), ``rated`` (share of false negatives).

    Example:
        >>> calibration([0.0, 0.0, 0.5, 0.5], [False, False, True, False], bins=2)["rated"].tolist()
        [0.0, 0.5]
    """
    own = np.floor((rankdata(probabilities) - 0.5) / len(probabilities) * bins).astype(np.int64)
    table = pd.DataFrame({"bin": own, "implied": probabilities, "rated": np.asarray(false, np.float64)})
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


def rates_by_anchor(ratings, anchors) -> pd.DataFrame:
    """What people say of each anchor's candidates as a whole.

    Args:
        ratings: (n, 3), from 1 to 4.
        anchors: (n,) the anchor of each pair.

    Returns:
        A row per anchor, sorted: ``anchor``, ``pairs``, ``rate`` (share of false negatives), ``mean rating``.
    """
    table = pd.DataFrame({"anchor": anchors, "false": false_negatives(ratings), "rating": np.mean(ratings, axis=1)})
    columns = {"pairs": ("false", "size"), "rate": ("false", "mean"), "mean rating": ("rating", "mean")}
    return table.groupby("anchor").agg(**columns).reset_index()


def rank_correlation(first, second, *, seed: int) -> Interval:
    """Spearman's ρ with its 95 % bootstrap interval over the pairs of values, ties sharing their ranks.

    Args:
        first: (n,), one value per anchor, such as its η.
        second: (n,), such as its rate of false negatives.
        seed: of the bootstrap.

    Returns:
        NaN where one side is constant: it has no rank to correlate.
    """
    sides = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if any(len(set(values)) < 2 for values in sides):
        return Interval(np.nan, np.nan, np.nan)
    count = len(sides[0])

    def spearman(multiplicities: np.ndarray) -> np.ndarray:
        drawn = np.repeat(np.tile(np.arange(count), len(multiplicities)), multiplicities.ravel()).reshape(-1, count)
        x, y = (rankdata(values[drawn], axis=1) - (count + 1) / 2 for values in sides)
        with np.errstate(invalid="ignore"):  # all values drawn may be equal
            return (x * y).sum(1) / np.sqrt((x**2).sum(1) * (y**2).sum(1))

    return bootstrap(spearman, count, seed=seed)

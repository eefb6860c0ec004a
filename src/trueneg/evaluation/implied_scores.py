"""Scores for how likely an objective considers a negative to be false (larger: more likely); some
are probabilities.

===============  ===================================================================================
similarity       s(text, image) of the trained networks. InfoNCE's softmax, HCL's hardness e^(βu)
                 and ReCo's max(0, s) push near negatives away MORE: as weights against false
                 negatives, they have an AUC of 1 − AUC(similarity). BCL's p(TN) decreases with the
                 similarity
1 − p(TN)        BCL (:func:`false_negative_probability`). Within an anchor it increases with the
                 similarity and so has the same AUC; in addition it is a probability, which can be
                 calibrated
η                the probability in DCL and HCL: the same for all negatives of an anchor, so its AUC
                 within an anchor is ½ by construction
text similarity  the criterion of remove, reweight and resample: the cosine between the caption and
                 the one caption that the batch drew for the image (:func:`drawn_areas`); the mean
                 or maximum over all five is not available in a batch
===============  ===================================================================================
"""

from typing import Any

import numpy as np
import torch
from numpy import ndarray
from pandas import DataFrame
from scipy.stats import rankdata

from trueneg.evaluation.human_ratings import areas_within_anchors, false_negatives
from trueneg.losses.estimators.bayesian import recovered_distribution, true_negative_probability


def false_negative_probability(similarities, is_own, *, alpha: float, eta, form: str) -> ndarray:
    r"""Compute 1 − p(TN) of BCL's equation 2 from a candidate's rank among the anchor's negatives.

    .. math:: p(\mathrm{TN}) = \frac{\tau^- (\alpha + (1-2\alpha)F)}
              {\tau^- (\alpha + (1-2\alpha)F) + \tau^+ (1-\alpha + (2\alpha-1)F)}

    This is the p(TN) of :class:`trueneg.losses.Bayesian`; F depends on the objective's form.
    ``paper``: F is the empirical distribution function of the negatives. Other forms: F is
    recovered from it, by ``code`` without its offset. β does not enter. (The released ω also
    contains the hardness term with β, which does not indicate whether a negative is false.)

    Args:
        similarities: (A, N) similarities of each anchor with all candidates.
        is_own: (A, N) bool mask of an anchor's own samples, which are not negatives.
        alpha: α in [0.5, 1].
        eta: τ⁺ in [0, 1): a number, or shape (A,).
        form: ``"paper"``, ``"consistent"``, ``"released"`` or ``"code"``.

    Returns:
        (A, N); NaN at an anchor's own samples.

    Example:
        >>> similarities, is_own = np.array([[0.9, 0.1, 0.5]]), np.array([[True, False, False]])
        >>> false_negative_probability(
        ...     similarities, is_own, alpha=0.5, eta=0.25, form="paper"
        ... ).tolist()
        [[nan, 0.25, 0.25]]
    """
    similarities = np.asarray(similarities, np.float64)
    is_own = np.asarray(is_own, bool)
    # An anchor's own samples rank below all negatives; ties get the same value: the share of
    # negatives at most as near.
    rank = rankdata(np.where(is_own, -np.inf, similarities), method="max", axis=1) - is_own.sum(
        1, keepdims=True
    )
    distribution = torch.from_numpy(np.clip(rank, 0, None) / (~is_own).sum(1, keepdims=True))
    column = torch.tensor(eta, dtype=torch.float64).expand(len(similarities))[:, None]
    if form != "paper":
        distribution = recovered_distribution(distribution, alpha, column)
    probability = 1 - true_negative_probability(distribution, alpha, column).numpy()
    return np.where(is_own, np.nan, probability)


def captions_similarity(features: Any, captions: ndarray, others: ndarray) -> ndarray:
    """Return the cosines (n, K) between each pair's caption and each of the K captions of its
    image.

    Args:
        features: (T, H) unit-length text features, dense or sparse.
        captions: (n,) text index of the rated caption.
        others: (n, K) text indices of the rated image's own captions.

    Example:
        >>> captions_similarity(np.eye(2), np.array([0]), np.array([[0, 1]])).tolist()
        [[1.0, 0.0]]
    """
    return np.stack([(features[captions] * features[column]).sum(1) for column in others.T], axis=1)


def drawn_areas(similarity: ndarray, ratings, anchors: ndarray, threshold: float) -> DataFrame:
    """Compute the within-anchor AUCs when one caption is drawn per image, averaged over the choice
    of caption.

    Args:
        similarity: (n, K), as returned by :func:`captions_similarity`; or (n,) if no caption is
            drawn.
        ratings: (n, 3) ratings that determine the false negatives.
        anchors: (n,) the anchor of each pair.
        threshold: threshold for the mean rating.
    """
    false = false_negatives(ratings, threshold)
    by_caption = [
        areas_within_anchors(column, false, anchors)
        for column in similarity.reshape(len(anchors), -1).T
    ]
    return by_caption[0].assign(area=np.mean([areas["area"] for areas in by_caption], axis=0))

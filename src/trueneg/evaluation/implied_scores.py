"""What an objective implies of a negative: a score, or a probability, that it is a false one. Larger: likelier false.

===============  ===============================================================================================================
similarity       s(text, image) of the trained networks. InfoNCE's softmax, HCL's hardness e^(βu) and ReCo's max(0, s) push a near
                 negative MORE, so as weights against false negatives they have one minus its AUC; BCL's p(TN) falls with it
1 − p(TN)        BCL (:func:`false_negative_probability`). Within an anchor it is a rising function of the similarity, so its AUC
                 there is the similarity's; what it adds is a probability, which can be calibrated
η                DCL's and HCL's probability: the same for all negatives of an anchor, so ½ within it by construction
text similarity  what remove, reweight and resample go by: the cosine of the caption and the one caption that the batch drew for
                 the image (:func:`drawn_areas`); with all five, their mean or nearest, one would know more than a batch does
===============  ===============================================================================================================
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.sparse import csr_array
from scipy.stats import rankdata
from sklearn.feature_extraction.text import TfidfVectorizer
from torch.nn import functional

from trueneg.evaluation.human_ratings import areas_within_anchors, false_negatives
from trueneg.evaluation.pair_features import encode_texts
from trueneg.losses.estimators.bayesian import recovered_distribution, true_negative_probability
from trueneg.training.image_text_networks import Networks


def false_negative_probability(similarities, own, *, alpha: float, eta, form: str) -> np.ndarray:
    r"""1 − p(TN) of BCL's equation 2, at the rank of a candidate among the anchor's negatives.

    .. math:: p(\mathrm{TN}) = \frac{\tau^- (\alpha + (1-2\alpha)F)}
              {\tau^- (\alpha + (1-2\alpha)F) + \tau^+ (1-\alpha + (2\alpha-1)F)}

    F by the objective's form, as in :class:`trueneg.losses.Bayesian`, whose p(TN) this is: ``paper``: the empirical
    distribution function of the negatives; ``consistent`` and ``released``: what it is made from is recovered. (The released ω
    also holds β's hardness, which says nothing of being false.) β is no part of it.

    Args:
        similarities: (A, N) of each anchor with all candidates.
        own: (A, N) bool: its own samples, which are no negatives.
        alpha: α in [0.5, 1].
        eta: τ⁺ in [0, 1): a number, or (A,).
        form: ``"paper"``, ``"released"`` or ``"consistent"``.

    Returns:
        (A, N); NaN at an anchor's own.

    Example:
        >>> similarities, own = np.array([[0.9, 0.1, 0.5]]), np.array([[True, False, False]])
        >>> false_negative_probability(similarities, own, alpha=0.5, eta=0.25, form="paper").tolist()
        [[nan, 0.25, 0.25]]
    """
    similarities, own = np.asarray(similarities, np.float64), np.asarray(own, bool)
    # Its own rank below all negatives; equal ones share the share of negatives that are at most as near.
    rank = rankdata(np.where(own, -np.inf, similarities), method="max", axis=1) - own.sum(1, keepdims=True)
    distribution = torch.from_numpy(np.clip(rank, 0, None) / (~own).sum(1, keepdims=True))
    column = torch.tensor(eta, dtype=torch.float64).expand(len(similarities))[:, None]
    if form != "paper":
        distribution = recovered_distribution(distribution, alpha, column)
    probability = 1 - true_negative_probability(distribution, alpha, column).numpy()
    return np.where(own, np.nan, probability)


def text_features(networks: Networks, texts: Sequence[str], device: torch.device) -> np.ndarray:
    """(T, H) texts under the text encoder, before the projection, of length 1: what text similarity is the cosine of."""
    return functional.normalize(encode_texts(networks, networks.model.text_encoder, texts, device), dim=1).cpu().numpy()


def word_features(texts: Sequence[str], corpus: Sequence[str]) -> csr_array:
    """(T, V) TF-IDF of words, of length 1: a similarity of texts without a network; unknown words do not count.

    Args:
        texts: to compare.
        corpus: texts that determine how rare each word is.
    """
    return csr_array(TfidfVectorizer().fit(corpus).transform(texts))


def captions_similarity(features: Any, captions: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(n, K) cosine of each pair's caption with each of its image's own K captions.

    Args:
        features: (T, H) of texts, of length 1; an array, dense or sparse.
        captions: (n,) which text the rated caption is.
        others: (n, K) which texts are the captions of the image that it was rated for.

    Example:
        >>> captions_similarity(np.eye(2), np.array([0]), np.array([[0, 1]])).tolist()
        [[1.0, 0.0]]
    """
    return np.stack([(features[captions] * features[column]).sum(1) for column in others.T], axis=1)


def drawn_areas(similarity: np.ndarray, ratings, anchors: np.ndarray, threshold: float) -> pd.DataFrame:
    """The areas within anchors that a batch gets, which draws one caption of each image: the mean over the captions.

    Args:
        similarity: (n, K) of :func:`captions_similarity`; or (n,), where nothing is drawn.
        ratings: (n, 3), which determine what is false.
        anchors: (n,).
        threshold: of the mean rating.
    """
    false = false_negatives(ratings, threshold)
    each = [areas_within_anchors(column, false, anchors) for column in similarity.reshape(len(anchors), -1).T]
    return each[0].assign(area=np.mean([one["area"] for one in each], axis=0))

"""BCL's probability matches its equation and its weights; text similarity is a cosine with one
drawn caption.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer

from trueneg.evaluation.human_ratings import areas_within_anchors, false_negatives
from trueneg.evaluation.implied_scores import (
    captions_similarity,
    drawn_areas,
    false_negative_probability,
)
from trueneg.losses import Bayesian


def by_the_book(similarities, own, alpha, eta, form):
    """1 − p(TN) with plain numbers; the root of the mixture's quadratic by bisection."""
    negatives = [value for value, mine in zip(similarities, own, strict=True) if not mine]
    found = []
    for value, mine in zip(similarities, own, strict=True):
        if mine:
            found.append(float("nan"))
            continue
        mixture = sum(other <= value for other in negatives) / len(negatives)
        distribution = mixture
        if form != "paper":
            low, high = 0.0, 1.0
            for _ in range(80):
                middle = (low + high) / 2
                linear = 2 * (alpha * (1 - eta) + (1 - alpha) * eta) * middle
                value_there = linear + (1 - 2 * alpha) * (1 - 2 * eta) * middle**2
                low, high = (middle, high) if value_there < mixture else (low, middle)
            distribution = (low + high) / 2
        true = (1 - eta) * (alpha + (1 - 2 * alpha) * distribution)
        false = eta * ((1 - alpha) + (2 * alpha - 1) * distribution)
        found.append(false / (true + false))
    return found


@st.composite
def anchors(draw):
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(2, 9))
    seed = draw(st.integers(0, 2**16))
    generator = np.random.default_rng(seed)
    similarities = generator.integers(-3, 4, (rows, columns)) / 4  # ties
    own = generator.random((rows, columns)) < 0.2
    own[:, draw(st.integers(0, columns - 1))] = False
    return similarities, own, generator.uniform(0.01, 0.6, rows)


@given(anchors(), st.floats(0.5, 0.99), st.sampled_from(["paper", "consistent", "released"]))
@settings(deadline=None, max_examples=60)
def test_false_negative_probability_matches_the_equation(given_anchors, alpha, form):
    similarities, own, eta = given_anchors
    found = false_negative_probability(similarities, own, alpha=alpha, eta=eta, form=form)
    for row in range(len(eta)):
        expected = by_the_book(
            similarities[row].tolist(), own[row].tolist(), alpha, float(eta[row]), form
        )
        np.testing.assert_allclose(found[row], expected, atol=1e-9)


@pytest.mark.parametrize("form", ["paper", "consistent"])
def test_false_negative_probability_matches_the_weights_of_the_loss(form):
    """With β = 0 the share of a negative in the mass is p(TN) e^u over their sum: the gradient of
    the log mass.
    """
    generator = np.random.default_rng(0)
    similarities, eta = generator.uniform(-1, 1, (5, 30)), generator.uniform(0.05, 0.4, 5)
    negatives = torch.tensor(14 * similarities, requires_grad=True)
    estimator = Bayesian(alpha=0.8, beta=0.0, class_probability=torch.tensor(eta), form=form)
    (share,) = torch.autograd.grad(estimator(torch.zeros(5), negatives).sum(), negatives)
    found = 1 - false_negative_probability(
        similarities, np.zeros((5, 30), bool), alpha=0.8, eta=eta, form=form
    )
    expected = found * np.exp(14 * similarities)
    np.testing.assert_allclose(share, expected / expected.sum(1, keepdims=True), rtol=1e-6)


def test_within_an_anchor_the_probability_ranks_like_the_similarity():
    generator = np.random.default_rng(1)
    similarities, own = generator.standard_normal((20, 50)), np.eye(20, 50, dtype=bool)
    found = false_negative_probability(
        similarities, own, alpha=0.7, eta=generator.uniform(0.01, 0.3, 20), form="consistent"
    )
    false, kept = generator.random((20, 50)) < 0.3, ~own
    anchor = np.broadcast_to(np.arange(20)[:, None], own.shape)[kept]
    ranked = areas_within_anchors(found[kept], false[kept], anchor).area
    np.testing.assert_array_equal(
        ranked, areas_within_anchors(similarities[kept], false[kept], anchor).area
    )
    np.testing.assert_array_equal(np.isnan(found), own)


def test_the_mean_probability_is_the_class_probability():
    """The posterior of the recovered form, averaged over the mixture, is the prior."""
    similarities = np.random.default_rng(2).standard_normal((1, 20_000))
    found = false_negative_probability(
        similarities, np.zeros((1, 20_000), bool), alpha=0.9, eta=0.1, form="consistent"
    )
    assert found.mean() == pytest.approx(0.1, abs=1e-3)


def test_text_similarity_is_a_cosine_for_dense_and_sparse_features():
    texts = ["a dog runs", "a dog sleeps", "two boats sail", "the boats"]
    features = csr_array(TfidfVectorizer().fit_transform(texts))
    captions, others = np.array([0, 2]), np.array([[1, 2], [3, 0]])
    dense = features.toarray()
    expected = [[dense[a] @ dense[b] for b in row] for a, row in zip(captions, others, strict=True)]
    np.testing.assert_allclose(captions_similarity(features, captions, others), expected)
    np.testing.assert_allclose(captions_similarity(dense, captions, others), expected)
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1)
    assert expected[0][0] > expected[0][1] == 0


def test_the_area_for_one_drawn_caption_is_the_mean_over_captions():
    generator = np.random.default_rng(3)
    similarity, ratings, own = (
        generator.random((60, 5)),
        generator.integers(1, 5, (60, 3)),
        generator.integers(0, 6, 60),
    )
    found = drawn_areas(similarity, ratings, own, 2.5)
    false = false_negatives(ratings, 2.5)
    each = [areas_within_anchors(column, false, own).area for column in similarity.T]
    np.testing.assert_allclose(found.area, np.mean(each, axis=0))
    np.testing.assert_array_equal(drawn_areas(similarity[:, 0], ratings, own, 2.5).area, each[0])

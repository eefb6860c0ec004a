"""Ranks, recall and precision against slow loops and scikit-learn, with ties and with several
relevant candidates.
"""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from sklearn.metrics import top_k_accuracy_score

from trueneg.evaluation.retrieval import (
    Metric,
    median_rank,
    precision_at_k,
    precisions_at_k,
    ranks,
    recall_at_k,
    retrieval_both_ways,
)

# Few distinct values, so that ties are the rule.
TIED = st.sampled_from([-1.0, 0.0, 0.25, 0.5])
ANY = st.floats(-1, 1, allow_subnormal=False)


def sorted_rank(scores, relevant, ties):
    """Sort the candidates, with the relevant ones last or first among equals, and return the place
    of the first relevant one.
    """
    relevant_first = {"against": 1, "for": -1}[ties]
    order = sorted(range(len(scores)), key=lambda c: (-scores[c], relevant_first * relevant[c]))
    return 1 + next(place for place, candidate in enumerate(order) if relevant[candidate])


def sorted_precision(scores, correct, k, ties):
    correct_first = {"against": 1, "for": -1}[ties]
    order = sorted(range(len(scores)), key=lambda c: (-scores[c], correct_first * correct[c]))
    return sum(correct[c] for c in order[:k]) / k


@st.composite
def scored(draw, square=False):
    queries = draw(st.integers(1, 7))
    candidates = queries if square else draw(st.integers(queries, 9))
    return draw(
        arrays(np.float64, (queries, candidates), elements=draw(st.sampled_from([TIED, ANY])))
    )


@st.composite
def with_relevance(draw):
    scores = draw(scored())
    relevant = draw(arrays(bool, scores.shape))
    for row in relevant:
        row[draw(st.integers(0, len(row) - 1))] = True
    return scores, relevant


ties = st.sampled_from(["against", "for"])


@settings(deadline=None, max_examples=150)
@given(with_relevance(), ties)
def test_ranks_match_sorting_with_ties_for_and_against(pair, ties):
    scores, relevant = pair
    expected = [
        sorted_rank(row, own, ties)
        for row, own in zip(scores.tolist(), relevant.tolist(), strict=True)
    ]
    assert ranks(scores, relevant, ties=ties).tolist() == expected


@settings(deadline=None, max_examples=100)
@given(scored(), ties)
def test_candidate_i_is_relevant_to_query_i_by_default(scores, ties):
    own = np.eye(*scores.shape, dtype=bool)
    assert ranks(scores, ties=ties).tolist() == ranks(scores, own, ties=ties).tolist()


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 30), st.integers(0, 10_000))
def test_recall_without_ties_matches_scikit_learns_top_k_accuracy(size, seed):
    scores = np.random.default_rng(seed).permutation(size * size).reshape(size, size) / size**2
    ks = sorted({1, max(1, size // 2), size - 1})
    found = recall_at_k(scores, ks)
    for k in ks:
        expected = (
            top_k_accuracy_score(np.arange(size), scores, k=k, labels=np.arange(size))
            if size > 2
            else found[k]
        )
        assert found[k] == pytest.approx(expected)
    assert recall_at_k(scores, ks, ties="for") == found


@settings(deadline=None, max_examples=60)
@given(with_relevance(), ties)
def test_recall_and_median_rank_follow_from_ranks(pair, ties):
    scores, relevant = pair
    places = ranks(scores, relevant, ties=ties).tolist()
    recalls = recall_at_k(scores, (1, 3, 100), relevant, ties=ties)
    assert recalls == {k: sum(place <= k for place in places) / len(places) for k in (1, 3, 100)}
    assert recalls[100] == 1
    middle = sorted(places)[(len(places) - 1) // 2 : len(places) // 2 + 1]
    assert median_rank(scores, relevant, ties=ties) == sum(middle) / len(middle)


def test_constant_scores_rank_last():
    collapsed = np.full((50, 50), 0.7)
    assert recall_at_k(collapsed, (10, 49, 50)) == {10: 0.0, 49: 0.0, 50: 1.0}
    assert median_rank(collapsed) == 50
    assert median_rank(collapsed, ties="for") == 1


def test_duplicate_sentences_are_errors_unless_marked_as_relevant():
    """Two boxes share a sentence: their scores tie, and both are correct."""
    sentences = np.array([0, 0, 1])
    scores = np.array([[0.9, 0.9, 0.2], [0.9, 0.9, 0.2], [0.1, 0.1, 0.8]])
    assert recall_at_k(scores, [1]) == {1: 1 / 3}
    assert recall_at_k(scores, [1], relevant=sentences[:, None] == sentences) == {1: 1.0}


def test_a_query_is_a_hit_if_any_relevant_candidate_is_found():
    image_of_caption = np.repeat(np.arange(3), 5)
    scores = np.full((3, 15), 0.1)
    scores[0, 4] = scores[1, 0] = scores[2, 12] = 0.9
    scores[1, 5] = 0.5
    relevant = np.arange(3)[:, None] == image_of_caption
    assert recall_at_k(scores, (1, 2), relevant) == {1: 2 / 3, 2: 1.0}
    assert recall_at_k(scores.T, (1,), relevant.T) == {1: 3 / 15}


@settings(deadline=None, max_examples=60)
@given(scored(square=True), ties)
def test_both_ways_contain_both_directions_and_their_means(scores, ties):
    metrics = retrieval_both_ways(scores, ks=(1, 2), ties=ties)
    there, back = (recall_at_k(own, (1, 2), ties=ties) for own in (scores, scores.T))
    assert [metrics[Metric("R", "text to image", k)] for k in (1, 2)] == [there[1], there[2]]
    assert [metrics[Metric("R", "image to text", k)] for k in (1, 2)] == [back[1], back[2]]
    assert metrics[Metric("R")] == pytest.approx((there[1] + there[2] + back[1] + back[2]) / 4)
    assert (
        metrics[Metric("MedR")]
        == (median_rank(scores, ties=ties) + median_rank(scores.T, ties=ties)) / 2
    )
    assert len(metrics) == 8


@settings(deadline=None, max_examples=100)
@given(scored(), st.data(), ties)
def test_precision_matches_sorting_with_ties_for_and_against(scores, data, ties):
    queries, candidates = scores.shape
    query_labels = data.draw(arrays(np.int64, queries, elements=st.integers(0, 2)))
    candidate_labels = data.draw(arrays(np.int64, candidates, elements=st.integers(0, 2)))
    ks = data.draw(st.lists(st.integers(1, candidates), min_size=1, max_size=3, unique=True))
    expected = [
        [sorted_precision(row, (candidate_labels == label).tolist(), k, ties) for k in ks]
        for row, label in zip(scores.tolist(), query_labels, strict=True)
    ]
    found = precisions_at_k(scores, query_labels, candidate_labels, ks, ties=ties)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
    shown = np.eye(3, dtype=int)[candidate_labels]
    assert np.array_equal(found, precisions_at_k(scores, query_labels, shown, ks, ties=ties))
    means = precision_at_k(scores, query_labels, candidate_labels, ks, ties=ties)
    assert means == pytest.approx(
        {k: np.mean([row[i] for row in expected]) for i, k in enumerate(ks)}
    )


def test_images_are_correct_for_each_of_their_findings_but_not_for_unknown_labels():
    shown = np.array([[1, 1], [0, 1], [-1, 0]])
    scores = np.array([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]])
    assert precisions_at_k(scores, [0, 1], shown, (2, 3)).tolist() == [[0.5, 1 / 3], [1.0, 2 / 3]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tensors_with_gradients_are_accepted(dtype):
    scores = torch.tensor([[0.5, 0.25], [1.0, 0.75]], dtype=dtype, requires_grad=True)
    assert recall_at_k(scores, (1, 2)) == {1: 0.5, 2: 1.0}
    assert median_rank(scores, torch.eye(2, dtype=torch.bool)) == 1.5
    assert precision_at_k(scores, torch.tensor([0, 1]), torch.tensor([0, 1]), (1,)) == {1: 0.5}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ranks(np.zeros(3)), r"scores have shape \(3,\)"),
        (lambda: ranks(np.zeros((0, 3))), "at least one of each"),
        (lambda: ranks(np.zeros((3, 2))), "query 2 has no relevant candidate"),
        (lambda: ranks(np.array([[0.0, 1.0], [np.nan, 0.0]])), "query 1 .* NaN"),
        (
            lambda: ranks(np.zeros((2, 2)), np.array([[True, False], [False, False]])),
            "query 1 has no relevant candidate",
        ),
        (lambda: ranks(np.zeros((2, 2)), np.eye(2)), "relevant is float64"),
        (
            lambda: ranks(np.zeros((2, 2)), np.eye(3, dtype=bool)),
            r"expected bool of shape \(2, 2\)",
        ),
        (lambda: ranks(np.zeros((2, 2)), ties="random"), "ties is 'random'"),
        (lambda: recall_at_k(np.zeros((2, 2)), (0, 1)), r"ks are \[0, 1\]"),
        (lambda: recall_at_k(np.zeros((2, 2)), ()), r"ks are \[\]"),
        (lambda: retrieval_both_ways(np.zeros((2, 3)), (1,)), "query 2 has no relevant candidate"),
        (
            lambda: precision_at_k(np.zeros((1, 2)), [0], [0, 1], (3,)),
            r"ks are \[3\]; expected .* at most 2",
        ),
        (lambda: precision_at_k(np.zeros((1, 2)), [0, 1], [0, 1], (1,)), r"query_labels \(2,\)"),
        (lambda: precision_at_k(np.array([[0.0, np.nan]]), [0], [0, 1], (1,)), "query 0 .* NaN"),
    ],
)
def test_invalid_arguments_raise_value_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()

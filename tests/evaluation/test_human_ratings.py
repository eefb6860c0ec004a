"""AUCs within anchors match scikit-learn; expert agreement, calibration and rates match plain
loops.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from trueneg.evaluation.human_ratings import (
    areas_within_anchors,
    calibration,
    calibration_error,
    expert_agreement,
    false_negatives,
    mean_area,
    rank_correlation,
    rates_by_anchor,
)


@st.composite
def scored_pairs(draw):
    count = draw(st.integers(1, 40))
    # Few different scores, so that there are ties.
    scores = draw(st.lists(st.integers(-2, 2), min_size=count, max_size=count))
    false = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    anchors = draw(st.lists(st.sampled_from("abcd"), min_size=count, max_size=count))
    return np.array(scores) / 4, np.array(false), np.array(anchors)


@given(scored_pairs())
@settings(deadline=None, max_examples=80)
def test_areas_match_scikit_learn_for_each_anchor(pairs):
    scores, false, anchors = pairs
    expected = {}
    for anchor in sorted(set(anchors)):
        own = anchors == anchor
        if len(set(false[own])) == 2:
            expected[anchor] = (
                roc_auc_score(false[own], scores[own]),
                false[own].sum() * (~false[own]).sum(),
            )
    found = areas_within_anchors(scores, false, anchors)
    assert found.anchor.tolist() == list(expected)
    np.testing.assert_allclose(found.area, [area for area, _ in expected.values()], atol=1e-12)
    assert found.comparisons.tolist() == [count for _, count in expected.values()]


def test_areas_depend_only_on_the_order_within_an_anchor():
    generator = np.random.default_rng(0)
    anchors, false = generator.integers(0, 9, 200), generator.random(200) < 0.4
    scores, offset = generator.random(200), 100 * generator.random(9)[anchors]
    areas = areas_within_anchors(scores, false, anchors).area
    np.testing.assert_allclose(areas_within_anchors(scores + offset, false, anchors).area, areas)
    assert set(areas_within_anchors(offset, false, anchors).area) == {0.5}


def test_the_mean_weights_anchors_equally_or_by_comparisons():
    scores, false = (
        np.array([1.0, 0, 0, 1, 1, 1]),
        np.array([True, False, True, False, False, False]),
    )
    found = areas_within_anchors(scores, false, np.array(list("aabbbb")))
    assert found.area.tolist() == [1, 0]
    assert mean_area(found, seed=0).estimate == 0.5
    assert mean_area(found, seed=0, weighted=True).estimate == 0.25  # 1 of 4 comparisons


def test_thresholds_are_compared_without_rounding():
    ratings = np.array(list(itertools.product((1, 2, 3, 4), repeat=3)))
    for threshold in (2.0, 2.5, 3.0):
        expected = [sum(row) > 3 * threshold for row in ratings.tolist()]
        assert false_negatives(ratings, threshold).tolist() == expected
    assert not false_negatives([[2, 2, 2]], 2.0)[0]


@given(st.lists(st.tuples(*[st.integers(1, 4)] * 3), min_size=1, max_size=12), st.integers(1, 3))
@settings(deadline=None, max_examples=40)
def test_expert_agreement_averages_over_all_experts_left_out(rows, anchors):
    ratings, own = np.array(rows), np.arange(len(rows)) % anchors
    expected = {}
    for first, second in itertools.product(range(len(rows)), repeat=2):
        if first == second or own[first] != own[second]:
            continue
        for out, other in itertools.product(range(3), repeat=2):
            means = [
                np.mean([rows[pair][k] for k in range(3) if k != gone])
                for pair, gone in ((first, out), (second, other))
            ]
            if means[0] > 2.5 >= means[1]:
                a, b = rows[first][out], rows[second][other]
                expected.setdefault(own[first], []).append(1.0 if a > b else 0.5 if a == b else 0.0)
    found = expert_agreement(ratings, own)
    assert found.anchor.tolist() == sorted(expected)
    np.testing.assert_allclose(
        found.area, [np.mean(expected[anchor]) for anchor in sorted(expected)]
    )
    # The order of a pair's ratings does not matter.
    np.testing.assert_allclose(expert_agreement(np.sort(ratings, axis=1), own).area, found.area)


def test_calibration_matches_a_worked_example():
    probabilities = [0.1, 0.2, 0.3, 0.3, 0.3, 0.9]
    false = [False, True, False, False, True, True]
    table = calibration(probabilities, false, bins=3)
    # Mid-ranks 1, 2, 4, 4, 4, 6 of 6 in thirds: {0.1, 0.2}, {0.3 thrice}, {0.9}; equal
    # probabilities stay together.
    assert table["pairs"].tolist() == [2, 3, 1]
    np.testing.assert_allclose(table["implied"], [0.15, 0.3, 0.9])
    np.testing.assert_allclose(table["rated"], [0.5, 1 / 3, 1.0])
    assert calibration_error(table) == pytest.approx((2 * 0.35 + 3 * (1 / 3 - 0.3) + 0.1) / 6)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0]), st.booleans()),
        min_size=1,
        max_size=50,
    )
)
@settings(deadline=None, max_examples=40)
def test_bins_contain_each_pair_once_and_preserve_means(pairs):
    probabilities, false = map(np.array, zip(*pairs, strict=True))
    table = calibration(probabilities, false)
    assert table["pairs"].sum() == len(pairs)
    assert len(table) <= len(set(probabilities))
    for column, values in (("implied", probabilities), ("rated", false)):
        assert np.average(table[column], weights=table["pairs"]) == pytest.approx(values.mean())
    assert abs(probabilities.mean() - false.mean()) - 1e-9 <= calibration_error(table) <= 1


def test_rates_are_computed_per_anchor():
    found = rates_by_anchor([[4, 4, 4], [1, 1, 1], [2, 3, 3]], ["b", "a", "b"])
    assert found["anchor"].tolist() == ["a", "b"]
    assert found["pairs"].tolist() == [1, 2]
    assert found["rate"].tolist() == [0, 1]
    np.testing.assert_allclose(found["mean rating"], [1, 10 / 3])


def test_rank_correlation_matches_scipy():
    generator = np.random.default_rng(2)
    rate = generator.integers(0, 4, 200) / 4
    eta = rate + generator.standard_normal(200)
    found = rank_correlation(eta, rate, seed=0)
    assert found.estimate == pytest.approx(stats.spearmanr(eta, rate).statistic)
    assert 0 < found.low < found.estimate < found.high
    nothing = rank_correlation(generator.permutation(eta), rate, seed=0)
    assert nothing.low < 0 < nothing.high
    assert np.isnan(rank_correlation(np.full(200, 0.1), rate, seed=0)).all()


def test_nan_scores_raise_an_error():
    with pytest.raises(ValueError, match="1 of 2 scores are NaN"):
        areas_within_anchors([np.nan, 1], [True, False], [0, 0])

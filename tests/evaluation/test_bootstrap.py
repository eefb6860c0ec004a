"""The cluster bootstrap against SciPy's, against repetition of the items, and by its coverage."""

import doctest
from math import nan

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

from trueneg.evaluation import bootstrap
from trueneg.evaluation.bootstrap import cluster_bootstrap, mean_of


@st.composite
def items_and_draws(draw):
    count = draw(st.integers(1, 8))
    values = draw(arrays(np.float64, count, elements=st.sampled_from([0.0, 0.25, 1.0, 3.0])))
    draws = draw(arrays(np.int64, (draw(st.integers(1, 4)), count), elements=st.integers(0, 3)))
    draws[:, draw(st.integers(0, count - 1))] += 1
    return values, draws


def repeated(values, draw):
    return np.repeat(values, draw)


@settings(deadline=None, max_examples=80)
@given(items_and_draws())
def test_statistics_of_multiplicities_are_those_of_repeated_items(pair):
    values, draws = pair
    np.testing.assert_allclose(mean_of(values)(draws), [repeated(values, draw).mean() for draw in draws])


def test_the_mean_of_several_columns_skips_items_without_a_value():
    values = np.array([[1.0, nan], [3.0, 5.0], [nan, nan]])
    draws = np.array([[1, 1, 4], [2, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(mean_of(values)(draws), [[2, 5], [5 / 3, 5], [nan, nan]])


def test_clusters_of_one_item_are_the_ordinary_bootstrap_of_scipy():
    values = np.random.default_rng(0).exponential(size=80)
    found = cluster_bootstrap(mean_of(values), np.arange(80), seed=1, draws=20_000)
    expected = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", vectorized=True, rng=np.random.default_rng(2)
    ).confidence_interval
    assert found.estimate == pytest.approx(values.mean())
    # Quantiles of 20,000 draws vary by about 1.5 % of the interval's width.
    width = expected.high - expected.low
    assert found.low == pytest.approx(expected.low, abs=0.06 * width)
    assert found.high == pytest.approx(expected.high, abs=0.06 * width)
    assert found.undefined == 0


def test_copies_of_an_item_in_its_cluster_do_not_narrow_the_interval():
    """Five captions of an image say no more than one: the cluster's interval stays, that over items shrinks by √5."""
    values = np.random.default_rng(0).random(60)
    copies, images = np.repeat(values, 5), np.repeat(np.arange(60), 5)
    one = cluster_bootstrap(mean_of(values), np.arange(60), seed=3)
    five = cluster_bootstrap(mean_of(copies), images, seed=3)
    np.testing.assert_allclose(five[:3], one[:3])
    naive = cluster_bootstrap(mean_of(copies), np.arange(300), seed=3)
    assert (naive.high - naive.low) / (one.high - one.low) == pytest.approx(5**-0.5, rel=0.1)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """Items of a cluster share an effect; the mean of 40 such clusters, 300 times."""
    generator = np.random.default_rng(4)
    clusters = np.repeat(np.arange(40), 3)
    covered = 0
    for repetition in range(300):
        values = 2 + generator.standard_normal(40)[clusters] + 0.5 * generator.standard_normal(120)
        interval = cluster_bootstrap(mean_of(values), clusters, seed=repetition, draws=400, level=0.9)
        covered += interval.low <= 2 <= interval.high
    # Binomial(300, 0.9) has a standard deviation of 5.2; percentile intervals of 40 clusters cover a little less.
    assert 250 <= covered <= 285


def test_two_methods_see_the_same_draws_so_their_difference_is_paired():
    generator = np.random.default_rng(5)
    difficulty, clusters = generator.standard_normal(100), np.arange(100)
    one, other = difficulty + 0.1 * generator.standard_normal(100), difficulty + 0.5
    both = cluster_bootstrap(mean_of(np.stack([one, other, other - one], axis=1)), clusters, seed=0)
    alone = cluster_bootstrap(mean_of(other - one), clusters, seed=0)
    assert both.low[2] == pytest.approx(alone.low)
    assert both.high[2] - both.low[2] < 0.2 * (both.high[0] - both.low[0])
    assert both.estimate.shape == (3,)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 500), st.integers(0, 100))
def test_blocks_and_names_of_clusters_change_nothing_and_seeds_do(block, seed):
    values, clusters = np.arange(12.0) ** 2, np.array([0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 6])
    whole = cluster_bootstrap(mean_of(values), clusters, seed=seed, draws=100)
    named = [f"patient {cluster}" for cluster in clusters]
    assert cluster_bootstrap(mean_of(values), named, seed=seed, draws=100, block=block) == whole
    # Two seeds may meet in one number by chance, five hardly.
    assert len({cluster_bootstrap(mean_of(values), clusters, seed=seed + other, draws=100) for other in range(5)}) > 1


def test_draws_in_which_the_statistic_is_undefined_are_counted_not_hidden():
    interval = cluster_bootstrap(mean_of([1.0, nan, nan, nan]), np.arange(4), seed=0, draws=4000)
    assert interval.low == interval.high == 1
    assert interval.undefined == pytest.approx(0.75**4, abs=4 * (0.32 * 0.68 / 4000) ** 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": [1, 1, 1]}, "1 clusters of"),
        ({"clusters": [[1], [2], [3]]}, r"one for each of \(n,\) items"),
        ({"draws": 0}, "draws is 0"),
        ({"level": 1.0}, "level is 1.0"),
        ({"statistic": mean_of([nan, nan, nan])}, "NaN in every draw"),
    ],
)
def test_wrong_arguments_are_refused_in_words(change, message):
    good = {"statistic": mean_of([1.0, 2.0, 3.0]), "clusters": [1, 2, 3], "draws": 10, "level": 0.9, "seed": 0}
    cluster_bootstrap(**good)
    with pytest.raises(ValueError, match=message):
        cluster_bootstrap(**{**good, **change})


def test_examples():
    failed, attempted = doctest.testmod(bootstrap)
    assert attempted
    assert not failed

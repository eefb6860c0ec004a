"""Bootstrap intervals against SciPy's, and by their coverage."""

import numpy as np
import pytest
import scipy.stats

from trueneg.evaluation.bootstrap import bootstrap


def mean_of(values):
    return lambda multiplicities: multiplicities @ values / len(values)


def test_intervals_match_scipys_percentile_bootstrap():
    values = np.random.default_rng(0).exponential(size=80)
    found = bootstrap(mean_of(values), 80, seed=1, draws=20_000)
    expected = scipy.stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=20_000,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert found.estimate == pytest.approx(values.mean())
    # Quantiles of 20,000 draws vary by about 1.5 % of the interval's width.
    width = expected.high - expected.low
    assert found.low == pytest.approx(expected.low, abs=0.06 * width)
    assert found.high == pytest.approx(expected.high, abs=0.06 * width)


def test_intervals_have_nominal_coverage():
    """The mean of 40 items, 300 times."""
    generator = np.random.default_rng(4)
    covered = 0
    for repetition in range(300):
        values = 2 + generator.standard_normal(40)
        interval = bootstrap(mean_of(values), 40, seed=repetition, draws=400, level=0.9)
        covered += interval.low <= 2 <= interval.high
    # Binomial(300, 0.9) has a standard deviation of 5.2; percentile intervals of 40 items cover a
    # little less.
    assert 250 <= covered <= 285


def test_draws_are_shared_between_methods():
    generator = np.random.default_rng(5)
    difficulty = generator.standard_normal(100)
    one, other = difficulty + 0.1 * generator.standard_normal(100), difficulty + 0.5
    drawn = []
    for values in (one, other, other - one):
        bootstrap(
            lambda multiplicities, values=values: (
                drawn.append(multiplicities @ values) or drawn[-1]
            ),
            100,
            seed=0,
        )
    first, second, difference = drawn[::2]
    np.testing.assert_allclose(second - first, difference, atol=1e-9)
    assert np.ptp(difference) < 0.3 * np.ptp(first)


def test_draws_depend_on_the_seed():
    values = np.arange(12.0) ** 2
    assert bootstrap(mean_of(values), 12, seed=3) == bootstrap(mean_of(values), 12, seed=3)
    # Two seeds may meet in one number by chance, five hardly.
    assert len({bootstrap(mean_of(values), 12, seed=seed, draws=100) for seed in range(5)}) > 1


def test_draws_with_an_undefined_statistic_are_ignored():
    def first_item_or_nan(multiplicities):
        return np.where(multiplicities[:, 0] > 0, 1.0, np.nan)

    interval = bootstrap(first_item_or_nan, 4, seed=0)
    assert interval.low == interval.high == 1

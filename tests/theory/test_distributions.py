"""Closed-form densities, distribution functions and means against order statistics, quadrature and
random draws.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from trueneg.theory.distributions import Conditional, base_probability, mixing
from trueneg.training.schedules import location_of

BASES = {"uniform": stats.uniform(-0.4, 1.0), "normal": stats.norm(0.3)}
ALPHAS = (0.5, 0.7, 0.9, 1.0)
LEVEL = 1e-3  # significance level of the tests of distributions; the seeds are fixed


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_densities_are_the_papers_mixtures_of_order_statistics(base, alpha):
    score = np.linspace(-0.35, 0.55, 20)
    density, below = base.pdf(score), base.cdf(score)
    # the smaller and larger of two draws, equations 11 and 12
    first, second = 2 * density * (1 - below), 2 * density * below
    true = alpha * first + (1 - alpha) * second  # equation 13
    false = alpha * second + (1 - alpha) * first  # equation 14
    np.testing.assert_allclose(Conditional(base, mixing(alpha, 0)).density(score), true)
    np.testing.assert_allclose(Conditional(base, mixing(alpha, 1)).density(score), false)
    np.testing.assert_allclose(
        Conditional(base, mixing(alpha, 0.3)).density(score), 0.7 * true + 0.3 * false
    )


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_true_negative_is_farther_than_a_false_one_with_this_probability(alpha):
    """Not α, as the paper's equation 15 says, but ½ + (2α − 1)/3; drawn as pairs of the base."""
    generator = np.random.default_rng(7)
    pairs = np.sort(generator.normal(size=(2, 200_000, 2)), axis=-1)
    is_usual = generator.random((2, 200_000)) < alpha
    true = np.where(is_usual[0], pairs[0, :, 0], pairs[0, :, 1])
    false = np.where(is_usual[1], pairs[1, :, 1], pairs[1, :, 0])
    expected = 0.5 + (2 * alpha - 1) / 3
    assert (true < false).mean() == pytest.approx(expected, abs=0.004)
    distributions = [Conditional(stats.norm(), mixing(alpha, share)) for share in (0, 1)]
    area = quad(lambda x: distributions[0].distribution(x) * distributions[1].density(x), -9, 9)[0]
    assert area == pytest.approx(expected)
    assert location_of(area, "model") == pytest.approx(alpha)


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
@pytest.mark.parametrize("a", [0.0, 0.1, 0.5, 0.82, 1.0])
def test_distribution_and_mean_are_integrals_of_the_density(base, a):
    conditional = Conditional(base, a)
    low, high = conditional.support(2.0)
    assert quad(conditional.density, low, high)[0] == pytest.approx(1)
    for score in (-0.2, 0.1, 0.5):
        assert quad(conditional.density, low, score)[0] == pytest.approx(
            float(conditional.distribution(score))
        )
    for temperature in (0.5, 1.0):
        expected = quad(
            lambda score, t=temperature: np.exp(score / t) * conditional.density(score), low, high
        )[0]
        assert float(conditional.mean_exponential(temperature)) == pytest.approx(expected)


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_base_probabilities_of_uniform_numbers_have_the_distribution(base, alpha, share):
    conditional = Conditional(base, mixing(alpha, share))
    drawn = base.ppf(base_probability(np.random.default_rng(3).random(20_000), conditional.mixing))
    assert stats.kstest(drawn, conditional.distribution).pvalue > LEVEL
    other = Conditional(base, mixing(0.75, 1 - share))
    assert stats.kstest(drawn, other.distribution).pvalue < LEVEL  # the test has power


@given(st.floats(0, 1), st.floats(0, 1))
@settings(deadline=None, max_examples=200)
def test_base_probability_solves_the_quadratic(probability, a):
    below = float(base_probability(np.float64(probability), a))
    assert 0 <= below <= 1
    assert 2 * a * below + (1 - 2 * a) * below**2 == pytest.approx(probability, abs=1e-12)

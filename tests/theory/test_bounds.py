"""Proposition 1 against integrated tail probabilities, the trivial bound against search, the
measured error against loops.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from tests.losses import by_the_book
from trueneg.theory import Setting, simulate_scores
from trueneg.theory.bound_experiments import class_distribution
from trueneg.theory.bounds import approximation_error, debiased_losses, proposition_1, trivial_bound

RHO = (0.6, 0.3, 0.1)


def integrated_tails(negatives, positives, rho, eta, temperature):
    """The last step of appendix A.1: the tail probabilities of Δ, integrated over ε class by
    class.
    """
    total = 0.0
    for share, guess in zip(rho, eta, strict=True):
        rate = 2 / (9 * math.exp(4 / temperature))
        first = quad(
            lambda e, c=rate * negatives * (1 - share) ** 2: 2 * math.exp(-c * e * e), 0, np.inf
        )[0]
        second = quad(
            lambda e, c=rate * positives * ((1 - share) / share) ** 2: 2 * math.exp(-c * e * e),
            0,
            np.inf,
        )[0]
        third = 3 * math.exp(2 / temperature) * abs(1 / (1 - guess) - 1 / (1 - share))
        total += share * (first + second + third)
    return total


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("eta", [RHO, (0.1, 0.1, 0.1), (0.0, 0.0, 0.0)])
def test_the_bound_is_the_integral_of_the_tail_probabilities_in_the_proof(temperature, eta):
    bound = proposition_1(30, 4, RHO, eta, temperature)
    assert bound == pytest.approx(integrated_tails(30, 4, RHO, eta, temperature))


@given(st.integers(1, 300), st.floats(0, 0.9), st.floats(0.2, 2), st.integers(0, 1000))
@settings(deadline=None, max_examples=100)
def test_no_difference_exceeds_the_trivial_bound_and_the_extremes_reach_it(
    negatives, eta, temperature, seed
):
    reach = 1 / temperature
    generator = np.random.default_rng(seed)
    bound = trivial_bound(negatives, [1.0], [eta], temperature)

    def difference(positive, near, same, mean):
        estimate = max((near - eta * same) / (1 - eta), math.exp(-reach))
        return abs(
            math.log(
                (math.exp(positive) + negatives * estimate)
                / (math.exp(positive) + negatives * mean)
            )
        )

    for positive, near, same, mean in generator.uniform(-reach, reach, (50, 4)):
        assert difference(positive, math.exp(near), math.exp(same), math.exp(mean)) <= bound + 1e-12
    extreme = difference(-reach, math.exp(reach), math.exp(-reach), math.exp(-reach))
    assert extreme == pytest.approx(bound)


def test_with_as_many_positives_the_paper_bound_is_informative_from_4776_negatives_on():
    """The number in docs/theory.md: CIFAR10-r at r = 0.1, DCL with the true η, t = 0.5."""
    rho = class_distribution(0.1)
    informative = [
        proposition_1(count, count, rho, rho, 0.5) < trivial_bound(count, rho, rho, 0.5)
        for count in (4775, 4776)
    ]
    assert informative == [False, True]


def test_both_bounds_at_the_numbers_of_the_paper():
    uniform = [0.1] * 10
    assert proposition_1(254, 1, uniform, uniform) == pytest.approx(5.03, abs=0.01)
    assert trivial_bound(254, uniform, uniform) == pytest.approx(2.09, abs=0.01)


def test_the_measured_error_is_the_mean_difference_over_anchors():
    setting = Setting(anchors=5, negatives=4, classes=RHO)
    frame = approximation_error(
        setting, debiased_losses(RHO), positive_counts=(1, 2), repetitions=3
    )
    # the third positive is in the numerator
    scores = simulate_scores(setting.varied(anchors=15, positives=3))
    etas = {"CL": 0.0, "DCL, mean η": 1 / 3, "DCL, largest η": 0.6, "DCL, true η": None}
    assert set(frame["objective"]) == set(etas)
    for (name, count), part in frame.groupby(["objective", "positives"]):
        differences = []
        for anchor in range(15):
            p, u = scores.positive[anchor], scores.negatives[anchor]
            eta = scores.class_probability[anchor] if etas[name] is None else etas[name]
            mass = by_the_book.debiased(p[:count], u, eta, setting.temperature)
            asymptotic = 4 * scores.exact_mean[anchor]
            differences.append(
                float(
                    by_the_book.anchor_loss(p[2], mass) - by_the_book.anchor_loss(p[2], asymptotic)
                )
            )
        values = part.set_index("quantity")
        assert values["value"]["|L − L̄|"] == pytest.approx(abs(np.mean(differences)), rel=1e-9)
        assert values["value"]["mean |Δ|"] == pytest.approx(np.mean(np.abs(differences)), rel=1e-9)
        assert values["standard error"]["|L − L̄|"] == pytest.approx(
            np.std(differences) / math.sqrt(15), rel=1e-6
        )


def test_the_error_vanishes_only_with_true_class_probabilities():
    setting = Setting(anchors=1500, negatives=1024, classes=RHO, temperature=1.0)
    frame = approximation_error(setting, debiased_losses(RHO), positive_counts=(1000,))
    errors = frame[frame["quantity"] == "|L − L̄|"].set_index("objective")
    assert errors["value"]["DCL, true η"] < 3.3 * errors["standard error"]["DCL, true η"] + 1e-3
    wrong = errors.drop("DCL, true η")
    assert (wrong["value"] > 5 * wrong["standard error"]).all()


@pytest.mark.parametrize("wrong", [{"slide": 0.6}, {"base": "normal"}])
def test_processes_whose_scores_can_exceed_1_are_rejected(wrong):
    setting = Setting(classes=RHO, **wrong)
    with pytest.raises(ValueError, match=r"base is .* slide"):
        approximation_error(setting, debiased_losses(RHO), positive_counts=(1,))

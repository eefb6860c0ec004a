"""BCL's weights in limiting cases, and which form is unbiased."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses.by_the_book import recovered
from trueneg.losses import Bayesian, HardNegative, Uncorrected
from trueneg.losses.estimators.bayesian import (
    recovered_distribution,
    released_weight,
    true_negative_probability,
)

PROPERTIES = settings(deadline=None, max_examples=60)
ALPHAS = st.floats(0.5, 1) | st.sampled_from([0.5, 1.0])
ETAS = st.floats(0, 0.99) | st.sampled_from([0.0, 0.5])


@PROPERTIES
@given(ALPHAS, ETAS, st.floats(0.001, 1))
def test_the_recovered_distribution_solves_the_quadratic(alpha, eta, mixture):
    """Also in the limits α = ½ and τ⁺ = ½, where the equation is linear and F = F_u."""
    solved = recovered_distribution(
        torch.tensor([[mixture, 1.0]], dtype=torch.float64), alpha, eta
    )[0].tolist()
    # Near a double root at 1 the solution is as exact as the square root of rounding.
    assert solved[0] == pytest.approx(recovered(mixture, alpha, eta), abs=1e-7)
    back = (1 - 2 * alpha) * (1 - 2 * eta) * solved[0] ** 2
    back += 2 * (alpha * (1 - eta) + (1 - alpha) * eta) * solved[0]
    assert back == pytest.approx(mixture, abs=1e-12)
    assert solved[1] == pytest.approx(1, abs=1e-7)
    if alpha == 0.5 or eta == 0.5:
        assert solved[0] == pytest.approx(mixture, rel=1e-15)


@PROPERTIES
@given(st.floats(0.5, 0.99), ETAS, st.floats(0.5, 1))
def test_the_released_weights_have_mean_1(alpha, eta, beta):
    """∫ω dF_u = ∫x_htn dF = 1, as x_htn is a density; so is x_tn, the weight at β = ½."""
    mixture = (torch.arange(20_000, dtype=torch.float64)[None] + 0.5) / 20_000
    distribution = recovered_distribution(mixture, alpha, eta)
    assert released_weight(distribution, alpha, beta, eta).mean().item() == pytest.approx(
        1, abs=1e-3
    )
    true = 2 * (alpha * (1 - distribution) + (1 - alpha) * distribution)
    false = 2 * ((1 - alpha) * (1 - distribution) + alpha * distribution)
    torch.testing.assert_close(
        released_weight(distribution, alpha, 0.5, eta), true / ((1 - eta) * true + eta * false)
    )


@pytest.mark.parametrize("form", ["paper", "consistent"])
@pytest.mark.parametrize("eta", [0.0, 0.1, 0.5, 0.9])
def test_an_uninformative_encoder_leaves_only_the_hardness_weights(form, eta):
    """At α = ½, p(TN) = τ⁻ for all negatives, which the normalisation cancels."""
    negatives = torch.randn(3, 9, dtype=torch.float64)
    for beta in (0.0, 1.5):
        expected = HardNegative(beta, 0.0)(torch.zeros(3), negatives)
        torch.testing.assert_close(
            Bayesian(0.5, beta, eta, form)(torch.zeros(3), negatives), expected
        )


@pytest.mark.parametrize("form", ["paper", "consistent"])
@pytest.mark.parametrize("alpha", [0.5, 0.8, 1.0])
def test_without_false_negatives_bayesian_is_uncorrected(form, alpha):
    negatives = torch.randn(3, 9, dtype=torch.float64)
    expected = Uncorrected()(torch.zeros(3), negatives)
    torch.testing.assert_close(Bayesian(alpha, 0.0, 0.0, form)(torch.zeros(3), negatives), expected)


@pytest.mark.parametrize("form", ["paper", "released", "consistent"])
@pytest.mark.parametrize("eta", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("negatives", [[[1.0, 1.0, 1.0]], [[2.0]], [[-3.0, 0.0, 90.0]]])
def test_a_perfect_encoder_is_finite_even_where_all_negatives_are_equal(form, eta, negatives):
    """At α = 1 the highest rank has weight 0; if all negatives share it, the weights would be
    0/0.
    """
    negatives = torch.tensor(negatives, requires_grad=True)
    equal = bool((negatives == negatives[0, 0]).all())
    beta = 0.9 if form == "released" else 1.0
    log_mass = Bayesian(1.0, beta, eta, form)(torch.zeros(1), negatives)
    log_mass.sum().backward()
    assert bool(log_mass.isfinite().all())
    assert bool(negatives.grad.isfinite().all())
    if equal:
        torch.testing.assert_close(log_mass, negatives.logsumexp(-1))


@pytest.mark.parametrize("value", [-1e35, -1e30, -1.0, -1e-40, 0.0, 1e-40, 2.0, 1e30])
def test_any_value_has_its_place(value):
    others = torch.tensor([-1e35, -3.0, -1e-30, 0.0, 1e-30, 3.0])
    row = torch.cat((others, torch.tensor([value])))[None]
    weights = Bayesian(0.9, 0.0, 0.3)._log_weight(row, 0.3).exp()
    shares = (row <= row.mT).double().mean(-1)[None]
    expected = true_negative_probability(shares, 0.9, 0.3)
    torch.testing.assert_close(weights.double(), expected, rtol=1e-5, atol=1e-6)


def test_no_gradient_flows_through_the_distribution():
    """With β = 0 the mass is Σ p e^u / mean(p), and p is a constant of the gradient."""
    negatives = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    estimator = Bayesian(0.8, 0.0, 0.2)
    (gradient,) = torch.autograd.grad(estimator(torch.zeros(2), negatives).exp().sum(), negatives)
    shares = (negatives[:, None] <= negatives[..., None]).double().mean(-1)
    probability = true_negative_probability(shares, 0.8, 0.2)
    weight = probability / probability.mean(-1, keepdim=True)
    torch.testing.assert_close(gradient, weight * negatives.detach().exp())


@pytest.mark.parametrize(("form", "biased"), [("paper", True), ("consistent", False)])
def test_only_the_consistent_form_is_unbiased_as_the_number_of_negatives_grows(form, biased):
    """Scores of class-conditional densities 13 and 14 over a uniform φ, by inversion; 4,096
    negatives.
    """
    alpha, eta, anchors, count = 0.9, 0.1, 200, 4096
    generator = torch.Generator().manual_seed(0)
    false = torch.rand(anchors, count, generator=generator, dtype=torch.float64) < eta
    pairs = torch.rand(anchors, count, 2, generator=generator, dtype=torch.float64)
    low_first = torch.rand(anchors, count, generator=generator, dtype=torch.float64) < alpha
    # The smaller of two uniform draws has density φ₁ = 2(1 − F), the larger φ₂ = 2F.
    uniform = torch.where(low_first ^ false, pairs.amin(-1), pairs.amax(-1))
    logits = (uniform - 0.5) / 0.5
    log_mass = Bayesian(alpha, 0.0, eta, form)(torch.zeros(anchors), logits)
    truth = logits.exp().masked_fill(false, 0).sum(1) / (~false).sum(1)
    difference = log_mass.exp() / count - truth
    bias, error = difference.mean().item(), difference.std().item() / math.sqrt(anchors)
    assert (abs(bias) > 0.01) if biased else (abs(bias) < max(4 * error, 0.001))

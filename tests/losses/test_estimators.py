"""Values and gradients of each estimator equal its equation."""

import functools
import math

import mpmath
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from trueneg.losses import (
    Anchors,
    Bayesian,
    Debiased,
    HardNegative,
    Oracle,
    Removed,
    Resampled,
    Reweighted,
    Uncorrected,
)
from trueneg.losses.estimators.bayesian import FORMS, OFFSETS

PROPERTIES = settings(deadline=None, max_examples=40)
SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 12), st.integers(1, 4))
SEEDS = st.integers(0, 10_000)
TEMPERATURES = st.floats(0.05, 2)
ETAS = st.floats(0, 0.95)
ALPHAS = st.floats(0.5, 0.99)


def draw_logits(seed, shape, temperature):
    """Return uniform (A, M) and (A, N) logits in [−1/t, 1/t]."""
    anchors, count, positives = shape
    generator = torch.Generator().manual_seed(seed)
    cosines = (
        2 * torch.rand(anchors, positives + count, generator=generator, dtype=torch.float64) - 1
    )
    positive, negatives = (cosines / temperature).split((positives, count), dim=1)
    return positive.requires_grad_(), negatives.clone().requires_grad_()


def assert_equals_the_book(estimator, reference, positive, negatives, rtol=1e-9, **arguments):
    """Compare values and gradients; ``reference(row, positives, negatives)`` returns the mass of an
    anchor.
    """
    log_mass = estimator(positive, negatives, **arguments)
    expected = torch.stack(
        [
            torch.log(torch.as_tensor(reference(row, list(positive[row]), list(negatives[row]))))
            for row in range(len(positive))
        ]
    )
    torch.testing.assert_close(log_mass, expected, rtol=rtol, atol=rtol)
    slopes = torch.linspace(1, 2, len(positive), dtype=torch.float64)
    for actual, wanted in zip(
        book.gradients((slopes * log_mass).sum(), [positive, negatives]),
        book.gradients((slopes * expected).sum(), [positive, negatives])
        if expected.requires_grad
        else [torch.zeros_like(positive), torch.zeros_like(negatives)],
        strict=True,
    ):
        torch.testing.assert_close(actual, wanted, rtol=rtol, atol=rtol)


def condition(weighted_sum, positives, count, eta, temperature):
    """Return by how much cancellation magnifies rounding errors; 1 well inside the bound."""
    subtracted = count * eta * book.exp_sum(positives).item() / len(positives)
    rest = weighted_sum.item() - subtracted
    margin = abs(rest / (1 - eta) / count / math.exp(-1 / temperature) - 1)
    if rest / (1 - eta) <= count * math.exp(-1 / temperature):
        return 1 / margin if margin > 0 else math.inf
    return max((weighted_sum.item() + subtracted) / rest, 1 / margin if margin > 0 else math.inf)


@PROPERTIES
@given(SEEDS, SHAPES, TEMPERATURES)
def test_uncorrected_equals_the_sum(seed, shape, temperature):
    positive, negatives = draw_logits(seed, shape, temperature)
    assert_equals_the_book(
        Uncorrected(), lambda row, p, u: book.uncorrected(p, u), positive, negatives
    )


@PROPERTIES
@given(SEEDS, SHAPES, TEMPERATURES, ETAS, st.booleans())
def test_debiased_equals_the_equation_with_one_class_probability_or_one_per_anchor(
    seed, shape, temperature, largest, by_anchor
):
    positive, negatives = draw_logits(seed, shape, temperature)
    factors = torch.rand(
        shape[0], generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    etas = (largest * factors).tolist() if by_anchor else [largest] * shape[0]
    for p, u, eta in zip(positive, negatives, etas, strict=True):
        assume(condition(book.exp_sum(u), list(p), len(u), eta, temperature) < 1e5)
    eta = torch.tensor(etas, dtype=torch.float64) if by_anchor else largest
    estimator = Debiased(eta)
    assert_equals_the_book(
        estimator,
        lambda row, p, u: book.debiased(p, u, etas[row], temperature),
        positive,
        negatives,
        temperature=temperature,
    )
    overridden = Debiased(0.5)(positive, negatives, class_probability=eta, temperature=temperature)
    torch.testing.assert_close(overridden, estimator(positive, negatives, temperature=temperature))


@PROPERTIES
@given(SEEDS, SHAPES, TEMPERATURES, ETAS, st.floats(0, 2))
def test_hard_negative_equals_the_equation(seed, shape, temperature, eta, beta):
    positive, negatives = draw_logits(seed, shape, temperature)
    for p, u in zip(positive, negatives, strict=True):
        weights = torch.exp(beta * u)
        weighted = (weights * torch.exp(u)).sum() / weights.mean()
        assume(condition(weighted, list(p), len(u), eta, temperature) < 1e5)
    assert_equals_the_book(
        HardNegative(beta, eta),
        lambda row, p, u: book.hard_negative(p, u, eta, temperature, beta),
        positive,
        negatives,
        temperature=temperature,
    )


@PROPERTIES
@given(
    SEEDS,
    SHAPES,
    TEMPERATURES,
    ETAS,
    ALPHAS,
    st.floats(0.5, 1),
    st.sampled_from(FORMS),
)
def test_bayesian_equals_the_equations(seed, shape, temperature, eta, alpha, beta, form):
    positive, negatives = draw_logits(seed, shape, temperature)
    beta = beta if form in OFFSETS else 4 * beta - 2  # from 0 to 2
    reference = functools.partial(book.bayesian, eta=eta, alpha=alpha, beta=beta, form=form)
    assert_equals_the_book(
        Bayesian(alpha, beta, eta, form), lambda row, p, u: reference(p, u), positive, negatives
    )


@PROPERTIES
@given(SEEDS, SHAPES, ETAS, ALPHAS, st.sampled_from(FORMS))
def test_bayesian_counts_ties(seed, shape, eta, alpha, form):
    """Logits from a grid of four values, including zeros of both signs."""
    generator = torch.Generator().manual_seed(seed)
    grid = torch.tensor([-1.0, -0.0, 0.0, 2.0], dtype=torch.float64)
    negatives = grid[torch.randint(4, (shape[0], shape[1]), generator=generator)].requires_grad_()
    positive = torch.zeros(shape[0], 1, dtype=torch.float64, requires_grad=True)
    assert_equals_the_book(
        Bayesian(alpha, 0.7, eta, form),
        lambda row, p, u: book.bayesian(p, u, eta, alpha, 0.7, form),
        positive,
        negatives,
    )


@PROPERTIES
@given(SEEDS, SHAPES, TEMPERATURES, st.floats(0.1, 3), st.floats(0, 1))
def test_explicit_estimators_equal_loops(seed, shape, temperature, exponent, threshold):
    positive, negatives = draw_logits(seed, shape, temperature)
    similarity = (
        2 * torch.rand(negatives.shape, generator=torch.Generator().manual_seed(seed + 1)).double()
        - 1
    )
    similarity[:, 0] = -0.5  # so that something is left
    same_class = similarity > 0.3
    assert_equals_the_book(
        Removed(threshold),
        lambda row, p, u: book.removed(p, u, similarity[row], threshold),
        positive,
        negatives,
        similarity=similarity,
    )
    assert_equals_the_book(
        Reweighted(exponent),
        lambda row, p, u: book.reweighted(p, u, similarity[row], exponent),
        positive,
        negatives,
        similarity=similarity,
    )
    assert_equals_the_book(
        Oracle(),
        lambda row, p, u: book.oracle(p, u, same_class[row]),
        positive,
        negatives,
        same_class=same_class,
    )


def test_resampled_draws_in_proportion_to_dissimilarity():
    torch.manual_seed(0)
    similarity = torch.tensor([[1.0, 0.75, 0.5, -1.0]])  # weights 0, 0.25, 0.5 and 1
    masses = torch.tensor([[100.0, 1.0, 2.0, 4.0]])
    size = 200_000
    mass = Resampled(size)(torch.zeros(1), masses.log(), similarity=similarity).exp().item() / size
    mean = (0.25 * 1 + 0.5 * 2 + 1 * 4) / 1.75
    deviation = math.sqrt((0.25 * 1 + 0.5 * 4 + 1 * 16) / 1.75 - mean**2)
    assert abs(mass - mean) < 5 * deviation / math.sqrt(size)


def test_resampled_has_a_gradient_only_for_drawn_negatives():
    torch.manual_seed(3)
    negatives = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    similarity = torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.2]]).repeat(2, 1)
    log_mass = Resampled(8)(torch.zeros(2), negatives, similarity=similarity)
    (gradient,) = torch.autograd.grad(log_mass.sum(), negatives)
    torch.testing.assert_close(gradient.sum(1), torch.ones(2, dtype=torch.float64))
    assert gradient[:, [1, 3]].abs().max() == 0


@pytest.mark.parametrize(
    ("estimator", "known"),
    [
        (Oracle(), {"same_class": torch.ones(2, 3, dtype=torch.bool)}),
        (Removed(0.5), {"similarity": torch.ones(2, 3)}),
        (Reweighted(), {"similarity": torch.ones(2, 3)}),
        (Resampled(4), {"similarity": torch.ones(2, 3)}),
    ],
)
def test_an_anchor_without_true_negatives_has_loss_and_gradient_0(estimator, known):
    """The first anchor has none; the second keeps one, and its gradient."""
    (name, value), negatives = next(iter(known.items())), torch.randn(2, 3, requires_grad=True)
    value = value.clone()
    value[1, 2] = 0
    positive = torch.zeros(2, requires_grad=True)
    loss = torch.nn.functional.softplus(estimator(positive, negatives, **{name: value}) - positive)
    assert loss[0] == 0
    assert loss[1] > 0
    loss.sum().backward()
    assert positive.grad[0] == 0
    assert negatives.grad[0].tolist() == [0, 0, 0]
    assert negatives.grad[1, 2] > 0
    assert negatives.grad[1, :2].tolist() == [0, 0]


@settings(deadline=None, max_examples=60)
@given(
    SEEDS,
    st.integers(2, 30),
    st.floats(0.01, 0.05),
    st.floats(0.05, 0.9),
    st.floats(1, 8),
    st.booleans(),
)
def test_debiased_is_as_accurate_as_its_condition_number_allows(
    seed, count, temperature, eta, digits, hard
):
    """Compared with 60-digit arithmetic; the positive is chosen so that 10^−digits of the sum
    remains.
    """
    beta = 1.0 if hard else 0.0
    generator = torch.Generator().manual_seed(seed)
    negatives = (
        2 * torch.rand(1, count, generator=generator, dtype=torch.float64) - 1
    ) / temperature
    log_sum = (
        ((1 + beta) * negatives).logsumexp(-1)
        - (beta * negatives).logsumexp(-1)
        + (math.log(count) if hard else 0)
    )
    if not hard:
        log_sum = negatives.logsumexp(-1)
    positive = log_sum - math.log(count * eta) + math.log1p(-(10**-digits))
    positive, negatives = positive.detach().requires_grad_(), negatives.requires_grad_()
    estimator = HardNegative(beta, eta) if hard else Debiased(eta)
    log_mass = estimator(positive, negatives)
    actual = [
        log_mass.item(),
        *(g.flatten() for g in book.gradients(log_mass.sum(), [positive, negatives])),
    ]

    with mpmath.workdps(60):
        exp = [mpmath.exp(mpmath.mpf(u)) for u in negatives[0].tolist()]
        importance = [mpmath.exp(mpmath.mpf(beta) * mpmath.mpf(u)) for u in negatives[0].tolist()]
        mean = mpmath.fsum(importance) / count
        weighted = [w * e / mean for w, e in zip(importance, exp, strict=True)]
        total = mpmath.fsum(weighted)
        subtracted = count * mpmath.mpf(eta) * mpmath.exp(mpmath.mpf(positive.item()))
        rest = total - subtracted
        magnified = float((total + subtracted) / rest)
        assume(rest > 0)
        expected = float(mpmath.log(rest / (1 - mpmath.mpf(eta))))
        # d(Σ w e^u)/du_n = (1 + β) w_n e^{u_n} − β (w_n / N) Σ w e^u
        by_negative = [
            float(((1 + beta) * v - beta * w / mean / count * total) / rest)
            for v, w in zip(weighted, importance, strict=True)
        ]
        by_positive = float(-subtracted / rest)
    tolerance = 16 * torch.finfo(torch.float64).eps * magnified * (1 + beta) / temperature
    assume(tolerance < 0.01)
    assert abs(actual[0] - expected) <= tolerance
    largest = max(abs(by_positive), *map(abs, by_negative))
    for gradient, wanted in zip([*actual[1], *actual[2]], [by_positive, *by_negative], strict=True):
        assert abs(float(gradient) - wanted) <= 4 * tolerance * largest


def test_at_the_bound_only_the_positive_has_a_gradient():
    positive = torch.tensor([5.0, -1.0], requires_grad=True)
    negatives = torch.zeros(2, 6, requires_grad=True)
    mass = Debiased(0.2).mass(Anchors(positive, negatives, temperature=0.5))
    assert mass.at_bound.tolist() == [True, False]
    torch.testing.assert_close(mass.log[0], torch.tensor(math.log(6) - 2.0))
    torch.nn.functional.softplus(mass.log - positive).sum().backward()
    assert negatives.grad[0].tolist() == [0] * 6
    assert bool((negatives.grad[1] > 0).all())
    assert positive.grad[0] == pytest.approx(
        -torch.sigmoid(torch.tensor(math.log(6) - 2 - 5.0)).item()
    )


@given(SEEDS, SHAPES, TEMPERATURES)
@PROPERTIES
def test_without_false_negatives_debiased_is_uncorrected_bit_for_bit(seed, shape, temperature):
    positive, negatives = draw_logits(seed, shape, temperature)
    uncorrected = Uncorrected()(positive, negatives)
    for eta in (0, torch.zeros(()), torch.zeros(shape[0])):
        mass = Debiased(eta).mass(Anchors(positive, negatives, temperature=temperature))
        assert torch.equal(mass.log, uncorrected)
        assert not mass.at_bound.any()


def test_without_false_negatives_gradients_remain_at_the_bound():
    """All negatives are opposite to the anchor, so the sum equals the bound up to rounding."""
    negatives = torch.full((1, 3), -2.0, requires_grad=True)
    mass = Debiased(torch.zeros(1)).mass(
        Anchors(torch.zeros(1), negatives, temperature=1 / 1.9999999)
    )
    mass.log.sum().backward()
    torch.testing.assert_close(negatives.grad, torch.full((1, 3), 1 / 3))


def test_without_a_temperature_a_negative_estimate_is_nan():
    assert Debiased(0.5)(torch.tensor([3.0]), torch.zeros(1, 4)).isnan().item()


@pytest.mark.parametrize("eta", [0.1, torch.tensor([0.0, 0.1])])
def test_nan_logits_are_not_hidden_by_the_bound(eta):
    negatives = torch.tensor([[math.nan, 0.0], [math.nan, 1.0]])
    assert Debiased(eta)(torch.zeros(2), negatives, temperature=0.5).isnan().all()


@pytest.mark.parametrize("wrong", [-0.1, 1, 1.5, math.nan, math.inf])
def test_a_class_probability_outside_its_range_is_refused(wrong):
    positive, negatives = torch.zeros(2), torch.zeros(2, 3)
    for make in (
        lambda: Debiased(wrong),
        lambda: HardNegative(1.0, wrong),
        lambda: Bayesian(class_probability=wrong),
        lambda: Debiased(0.1)(positive, negatives, class_probability=wrong),
        lambda: Debiased(0.1)(positive, negatives, class_probability=torch.tensor([0.1, wrong])),
    ):
        with pytest.raises(ValueError, match=r"class_probability.*at least 0 and below 1"):
            make()


def test_a_missing_or_misshapen_class_probability_is_refused():
    with pytest.raises(ValueError, match="class_probability is missing"):
        Debiased()(torch.zeros(2), torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"shape \(3,\); expected \(2,\)"):
        Debiased(torch.full((3,), 0.1))(torch.zeros(2), torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: HardNegative(beta=-1.0), "beta is -1.0"),
        (lambda: Bayesian(alpha=0.4), "alpha is 0.4"),
        (
            lambda: Bayesian(form="printed"),
            "form is 'printed'; expected one of paper, released, consistent, code",
        ),
        (lambda: Bayesian(beta=2.0, form="released"), "expected a number from 0.5 to 1"),
        (lambda: Bayesian(alpha=1.0, beta=1.0, form="released"), "alpha and beta are both 1"),
        (lambda: Removed(math.nan), "threshold is nan"),
        (lambda: Reweighted(-0.5), "exponent is -0.5"),
        (lambda: Resampled(0), "size is 0"),
        (lambda: Oracle()(torch.zeros(1), torch.zeros(1, 2)), "same_class is missing"),
        (lambda: Removed()(torch.zeros(1), torch.zeros(1, 2)), "similarity is missing"),
    ],
)
def test_invalid_parameters_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()

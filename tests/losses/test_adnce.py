"""ADNCE: weights by a normal density of the cosine, whose mean is 1, and its control with the
weights at random negatives.
"""

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from trueneg.losses import AdjustedInfoNCE, CrossModalLoss, Uncorrected

TEMPERATURES = {
    "a number": 0.25,
    "a scalar": torch.tensor(0.25),
    "float32 rows": torch.tensor([1.0, 0.4, 0.1]),
    "a column of one": torch.tensor([0.25], dtype=torch.float64, requires_grad=True),
}


@pytest.mark.parametrize("temperature", TEMPERATURES.values(), ids=TEMPERATURES)
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.floats(-0.5, 2), st.floats(0.05, 3))
def test_mass_and_gradient_equal_the_published_weights(temperature, seed, mu, sigma):
    draws = torch.Generator().manual_seed(seed)
    temperatures = [float(each) for each in torch.as_tensor(temperature).detach().expand(3)]
    cosines = 2 * torch.rand(3, 7, generator=draws, dtype=torch.float64) - 1
    logits = (cosines / torch.tensor(temperatures)[:, None]).requires_grad_()
    actual = AdjustedInfoNCE(mu, sigma)(torch.zeros(3), logits, temperature=temperature)
    assert actual.dtype == torch.float64
    rows = zip(logits, temperatures, strict=True)
    expected = torch.stack([book.adjusted([], list(row), t, mu, sigma) for row, t in rows]).log()
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    book.assert_same(actual.sum(), expected.sum(), [logits])


def test_a_wide_density_weights_all_negatives_alike():
    similarity = (
        2 * torch.rand(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    )
    wide, plain = (
        CrossModalLoss(estimator)(similarity.clone(), 20.0)
        for estimator in (AdjustedInfoNCE(sigma=1e6), Uncorrected())
    )
    torch.testing.assert_close(wide, plain, rtol=1e-10, atol=0)


@pytest.mark.parametrize("mu", [-1.0, 1.0])
def test_mass_and_gradient_are_finite_if_all_negatives_are_far_from_the_mode(mu):
    """In float32, the weights e^(−u²/2σ²) and the masses e^u alone would be 0 or infinite."""
    logits = torch.linspace(-100, 100, 50)[None, ::7].clone().requires_grad_()
    log_mass = AdjustedInfoNCE(mu, sigma=0.03)(torch.zeros(1), logits, temperature=0.01)
    (gradient,) = torch.autograd.grad(log_mass.sum(), logits)
    assert log_mass.isfinite().all()
    torch.testing.assert_close(gradient.sum(), torch.tensor(1.0))


def test_the_control_permutes_an_anchors_weights_over_its_negatives():
    """Every permutation is equally likely; columns that are not negatives have no part in it."""
    anchors, scale, mu, sigma = 3000, 5.0, 0.4, 0.3
    cosines = torch.tensor([0.9, 0.3, -0.2, 0.6, 0.1], dtype=torch.float64)
    valid = torch.tensor([True, False, True, False, True])
    kept = cosines[valid].tolist()
    heights = [math.exp(-((cosine - mu) ** 2) / (2 * sigma**2)) for cosine in kept]
    masses = [
        sum(
            3 * height / sum(heights) * math.exp(scale * cosine)
            for height, cosine in zip(order, kept, strict=True)
        )
        for order in itertools.permutations(heights)
    ]
    torch.manual_seed(0)
    rows = (anchors, 1)
    control = AdjustedInfoNCE(mu, sigma, shuffled=True)
    drawn = control(
        torch.zeros(anchors),
        (scale * cosines).repeat(rows),
        temperature=1 / scale,
        valid=valid.repeat(rows),
    ).exp()
    distance, nearest = (drawn[:, None] - torch.tensor(masses, dtype=torch.float64)).abs().min(1)
    assert distance.max() < 1e-9 * max(masses)
    counts = Counter(nearest.tolist())
    assert len(counts) == 6
    expected, deviation = anchors / 6, math.sqrt(anchors * 5 / 36)
    assert all(abs(count - expected) < 4.5 * deviation for count in counts.values())


def test_the_mean_mass_of_the_control_is_that_of_cl():
    torch.manual_seed(1)
    logits = 5 * (2 * torch.rand(1, 20, dtype=torch.float64) - 1)
    masses = AdjustedInfoNCE(0.5, 0.2, shuffled=True)(
        torch.zeros(4000), logits.repeat(4000, 1), temperature=0.2
    ).exp()
    error = masses.std() / math.sqrt(4000)
    assert abs(masses.mean() - logits.exp().sum()) < 4.5 * error
    assert masses.std() > 0.1 * masses.mean()


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda: AdjustedInfoNCE(mu=math.inf), "mu is inf"),
        (lambda: AdjustedInfoNCE(mu=math.nan), "mu is nan"),
        (lambda: AdjustedInfoNCE(sigma=0.0), "sigma is 0.0"),
        (lambda: AdjustedInfoNCE(sigma=-1.0), "sigma is -1.0"),
        (lambda: AdjustedInfoNCE(sigma=math.nan), "sigma is nan"),
        (lambda: AdjustedInfoNCE(sigma=math.inf), "sigma is inf"),
        (lambda: AdjustedInfoNCE()(torch.zeros(2), torch.zeros(2, 3)), "temperature is missing"),
    ],
)
def test_invalid_parameters_and_a_missing_temperature_are_refused(make, fact):
    with pytest.raises(ValueError, match=fact):
        make()

"""ReCo and the orthogonality constraint equal their double sum."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from trueneg.losses import RelaxedContrastiveLoss


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 5), st.floats(0, 2), st.booleans())
def test_loss_and_gradient_equal_the_double_sum(seed, count, dimensions, weight, relaxed):
    generator = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(count, dimensions, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2))
    actual = RelaxedContrastiveLoss(weight, relaxed)(u, v)
    expected = book.relaxed_loss(u, v, weight, relaxed)
    book.assert_same(actual, expected, [u, v])


def test_only_the_orthogonality_constraint_penalises_negative_cosines():
    u = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert RelaxedContrastiveLoss(0.6)(u, u).item() == 0
    assert RelaxedContrastiveLoss(0.6, relaxed=False)(u, u).item() == pytest.approx(1.2)


def test_it_stays_in_float32_under_autocast_and_is_finite_for_zeros():
    u, v = torch.randn(8, 4), torch.zeros(8, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        inside = RelaxedContrastiveLoss()(u, u.flip(0))
        value = RelaxedContrastiveLoss()(u, v)
    assert torch.equal(inside, RelaxedContrastiveLoss()(u, u.flip(0)))
    value.backward()
    assert bool(v.grad.isfinite().all())


def test_invalid_input_is_refused():
    with pytest.raises(ValueError, match="negative_weight is -1"):
        RelaxedContrastiveLoss(-1)
    with pytest.raises(ValueError, match=r"\(4, 2\) and \(3, 2\)"):
        RelaxedContrastiveLoss()(torch.zeros(4, 2), torch.zeros(3, 2))

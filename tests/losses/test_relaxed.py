"""ReCo and the orthogonality constraint equal their double sum."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from trueneg.losses import RelaxedContrastiveLoss


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 1000),
    st.integers(1, 6),
    st.integers(1, 5),
    st.floats(0, 2),
    st.booleans(),
    st.floats(-1, 0.99),
)
def test_loss_and_gradient_equal_the_double_sum(seed, count, dimensions, weight, relaxed, margin):
    generator = torch.Generator().manual_seed(seed)
    u, v = (
        torch.randn(count, dimensions, generator=generator, dtype=torch.float64, requires_grad=True)
        for _ in range(2)
    )
    for chunk_size in (None, 2):
        actual = RelaxedContrastiveLoss(weight, relaxed, margin=margin, chunk_size=chunk_size)(u, v)
        book.assert_same(actual, book.relaxed_loss(u, v, weight, relaxed, margin), [u, v])


@pytest.mark.parametrize("relaxed", [True, False])
def test_a_margin_of_0_changes_no_bit(relaxed):
    u, v = torch.randn(2, 9, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    cosines = (
        torch.nn.functional.normalize(u, dim=-1, eps=1e-7)
        @ torch.nn.functional.normalize(v, dim=-1, eps=1e-7).T
    )
    others = cosines.fill_diagonal_(0)
    expected = (others.clamp(min=0) if relaxed else others).square().sum(-1).sum()
    with_weight, without = (RelaxedContrastiveLoss(weight, relaxed)(u, v) for weight in (1, 0))
    assert torch.equal(with_weight, without + expected)


def test_a_margin_of_minus_1_adds_a_constant_push_to_the_orthogonality_constraint():
    """(c + 1)² = c² + 2c + 1: no negative is exempt, but one at −1 is left there, which the
    constraint would pull to 0.
    """
    u, v = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pushed, constrained = (
        RelaxedContrastiveLoss(0.6, margin=-1.0)(u, v),
        RelaxedContrastiveLoss(0.6, relaxed=False)(u, v),
    )
    cosines = torch.nn.functional.normalize(u, dim=-1) @ torch.nn.functional.normalize(v, dim=-1).T
    push = 2 * (cosines.sum() - cosines.trace()) + 6 * 5
    torch.testing.assert_close(pushed, constrained + 0.6 * push)
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert RelaxedContrastiveLoss(0.6, margin=-1.0)(opposite, opposite).item() == 0
    assert RelaxedContrastiveLoss(0.6, relaxed=False)(opposite, opposite).item() > 0


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


@pytest.mark.parametrize("chunk_size", [None, 2])
@pytest.mark.parametrize(("relaxed", "margin"), [(True, 0.0), (True, -0.5), (False, 0.0)])
def test_excluded_pairs_are_not_negatives(relaxed, margin, chunk_size):
    u, v = torch.randn(
        2, 5, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    ).requires_grad_()
    # without effect on the positives
    exclude = torch.rand(5, 5, generator=torch.Generator().manual_seed(3)) < 0.4
    expected = sum((1 - book.cosine(u[i], v[i])) ** 2 for i in range(5))
    for i in range(5):
        for j in range(5):
            if i != j and not exclude[i, j]:
                excess = book.cosine(u[i], v[j]) - margin
                expected = expected + 0.6 * (excess.clamp(min=0) if relaxed else excess) ** 2
    loss = RelaxedContrastiveLoss(0.6, relaxed, margin=margin, chunk_size=chunk_size)
    book.assert_same(loss(u, v, exclude), expected, [u, v])
    with pytest.raises(ValueError, match=r"exclude has shape \(5, 4\); expected \(5, 5\)"):
        loss(u, v, exclude[:, :4])


def test_invalid_input_is_refused():
    with pytest.raises(ValueError, match="negative_weight is -1"):
        RelaxedContrastiveLoss(-1)
    for margin in (-1.1, 1, float("nan")):
        with pytest.raises(ValueError, match=f"margin is {margin}"):
            RelaxedContrastiveLoss(margin=margin)
    with pytest.raises(ValueError, match=r"\(4, 2\) and \(3, 2\)"):
        RelaxedContrastiveLoss()(torch.zeros(4, 2), torch.zeros(3, 2))

"""The two-view loss equals a loop over anchors, whatever the order and the chunks in which it is
computed.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from trueneg.losses import (
    AdjustedInfoNCE,
    Anchors,
    Bayesian,
    ContrastiveLoss,
    Debiased,
    HardNegative,
    Oracle,
    Removed,
    Resampled,
    Reweighted,
    Uncorrected,
)
from trueneg.losses.layout import Layout

PROPERTIES = settings(deadline=None, max_examples=12)
ALL = [
    Uncorrected(),
    Debiased(0.1),
    HardNegative(1.0, 0.1),
    Bayesian(0.8, 1.0, 0.1),
    Bayesian(0.8, 1.0, 0.1, "consistent"),
    Bayesian(0.8, 0.9, 0.1, "released"),
    Removed(0.5),
    AdjustedInfoNCE(0.4, 0.3),
    Reweighted(),
    Resampled(5),
    Oracle(),
]
EXACT = [estimator for estimator in ALL if not isinstance(estimator, Resampled)]


def name(estimator):
    return f"{type(estimator).__name__}-{getattr(estimator, 'form', '')}".strip("-")


def draw(seed, count, dimensions, dtype=torch.float64):
    """Return two correlated views, and classes, similarities and class probabilities of the
    samples.
    """
    generator = torch.Generator().manual_seed(seed)
    z1 = torch.randn(count, dimensions, generator=generator, dtype=dtype)
    z2 = z1 + torch.randn(count, dimensions, generator=generator, dtype=dtype)
    labels, alike = (
        torch.randint(3, (count,), generator=generator),
        torch.rand(count, count, generator=generator, dtype=dtype),
    )
    known = {
        "labels": labels,
        "negative_similarity": alike + alike.T - 1,
        "class_probability": 0.5 * torch.rand(count, generator=generator, dtype=dtype),
        "unused": "ignore",
    }
    return z1.requires_grad_(), z2.requires_grad_(), known


def reference(estimator, temperature, known):
    """Return the reference mass of an anchor for an estimator in EXACT."""

    def mass(sample, positives, negatives, others):
        eta = float(known["class_probability"][sample])
        similarity = [float(known["negative_similarity"][sample, j]) for j in others]
        match estimator:
            case Uncorrected():
                return book.uncorrected(positives, negatives)
            case Debiased():
                return book.debiased(positives, negatives, eta, temperature)
            case HardNegative():
                return book.hard_negative(positives, negatives, eta, temperature, estimator.beta)
            case Bayesian():
                return book.bayesian(
                    positives, negatives, eta, estimator.alpha, estimator.beta, estimator.form
                )
            case Removed():
                return book.removed(positives, negatives, similarity, estimator.threshold)
            case AdjustedInfoNCE():
                return book.adjusted(
                    positives, negatives, temperature, estimator.mu, estimator.sigma
                )
            case Reweighted():
                return book.reweighted(positives, negatives, similarity, estimator.exponent)
            case Oracle():
                same = [bool(known["labels"][j] == known["labels"][sample]) for j in others]
                return book.oracle(positives, negatives, same)

    return mass


@pytest.mark.parametrize("estimator", EXACT, ids=name)
@PROPERTIES
@given(
    st.integers(0, 1000), st.integers(2, 5), st.integers(2, 6), st.floats(0.1, 2), st.integers(1, 4)
)
def test_loss_and_gradient_equal_a_loop_over_anchors(
    estimator, seed, count, dimensions, temperature, positives
):
    z1, z2, known = draw(seed, count, dimensions)
    extra = (
        torch.randn(count, positives - 1, dimensions, dtype=torch.float64)
        if positives > 1
        else None
    )
    inputs = [z1, z2]
    if extra is not None:
        inputs.append(extra.requires_grad_())
    actual = ContrastiveLoss(estimator, temperature)(z1, z2, extra_positives=extra, **known)
    expected = book.two_view_loss(
        reference(estimator, temperature, known), z1, z2, temperature, extra_positives=extra
    )
    book.assert_same(actual, expected, inputs)


@pytest.mark.parametrize("estimator", EXACT, ids=name)
@pytest.mark.parametrize("chunk_size", [1, 4, 7, 13, 14, 100])
def test_the_loss_and_gradient_do_not_depend_on_the_chunk_size(estimator, chunk_size):
    z1, z2, known = draw(1, 7, 5)
    extra = torch.randn(7, 2, 5, dtype=torch.float64, requires_grad=True)
    known["class_probability"].requires_grad_()
    inputs = [z1, z2, extra, known["class_probability"]]
    whole = ContrastiveLoss(estimator, 0.3).terms(z1, z2, extra_positives=extra, **known)
    in_chunks = ContrastiveLoss(estimator, 0.3, chunk_size=chunk_size).terms(
        z1, z2, extra_positives=extra, **known
    )
    assert (in_chunks.logits == ()) == (chunk_size < 14)
    torch.testing.assert_close(
        in_chunks[1:2] + in_chunks[3:5], whole[1:2] + whole[3:5], rtol=1e-12, atol=1e-12
    )
    book.assert_same(in_chunks.loss, whole.loss, inputs, 1e-12)


def test_each_anchor_gets_its_own_row_in_any_order_of_the_anchors():
    layout, order = Layout(count=3, samples=3, views=2), torch.tensor([4, 0, 2])
    assert layout.rows(torch.arange(3), order).tolist() == [1, 0, 2]  # one value per sample
    assert layout.rows(torch.arange(6), order).tolist() == [4, 0, 2]  # one value per anchor


def test_recomputed_chunks_repeat_their_random_draws():
    """The gradient of Resampled in chunks is the slope of the loss with the same draw."""
    z1, z2, known = draw(2, 6, 4)
    loss = ContrastiveLoss(Resampled(3), 0.5, chunk_size=4)

    def at(step):
        torch.manual_seed(5)
        return loss(z1 + step * direction, z2, **known)

    direction = torch.randn(6, 4, dtype=torch.float64)
    value = at(0)
    torch.manual_seed(99)  # the backward pass must not depend on where the generator stands
    (gradient,) = torch.autograd.grad(value, z1)
    slope = (at(1e-6) - at(-1e-6)).item() / 2e-6
    assert (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-6)


def test_anchors_and_negatives_have_the_documented_order():
    z1, z2, _ = draw(3, 4, 3)
    terms = ContrastiveLoss(Uncorrected(), temperature=0.25).terms(z1, z2)
    views = (z1, z2)
    for view in (0, 1):
        for i in range(4):
            anchor = view * 4 + i
            others = [j for j in range(4) if j != i]
            expected = [
                4 * book.cosine(views[view][i], other[j]).item() for other in views for j in others
            ]
            logits = terms.logits[0][anchor]
            assert logits[logits > -math.inf].tolist() == pytest.approx(expected)
            assert terms.positive[anchor].item() == pytest.approx(
                4 * book.cosine(z1[i], z2[i]).item()
            )


def test_class_probabilities_belong_to_samples_in_any_order():
    """Permuting the samples with their η changes nothing; permuting η alone does."""
    z1, z2, known = draw(4, 6, 4)
    eta, order = known["class_probability"], torch.tensor([3, 1, 5, 0, 4, 2])
    loss = ContrastiveLoss(Debiased(), 0.5)
    value = loss(z1, z2, class_probability=eta)
    torch.testing.assert_close(value, loss(z1[order], z2[order], class_probability=eta[order]))
    assert not torch.isclose(value, loss(z1, z2, class_probability=eta[order]))
    constant = loss(z1, z2, class_probability=torch.full((6,), 0.2, dtype=torch.float64))
    torch.testing.assert_close(constant, ContrastiveLoss(Debiased(0.2), 0.5)(z1, z2))


@pytest.mark.parametrize("estimator", ALL, ids=name)
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("case", ["random", "finished", "collapsed", "opposite", "zero"])
def test_loss_and_gradient_are_finite_at_a_logit_scale_of_100(estimator, autocast, case):
    z1, z2, known = draw(5, 8, 4, torch.float32)
    with torch.no_grad():
        if case == "finished":
            z2.copy_(z1)
        if case == "collapsed":
            z1.fill_(1)
            z2.fill_(1)
        if case == "opposite":
            z2.copy_(-z1)
        if case == "zero":
            z1.zero_()
    loss = ContrastiveLoss(estimator, temperature=0.01)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        half = [z.bfloat16() for z in (z1, z2)] if autocast else [z1, z2]
        terms = loss.terms(*half, **known)
    assert terms.loss.dtype == torch.float32
    assert bool(terms.loss.isfinite())
    terms.loss.backward()
    assert bool(z1.grad.isfinite().all())
    assert bool(z2.grad.isfinite().all())


def test_logits_are_float32_under_autocast():
    z1, z2, _ = draw(6, 16, 8, torch.float32)
    loss = ContrastiveLoss(Debiased(0.1), temperature=0.05)
    with torch.autocast("cpu", torch.bfloat16):
        inside = loss(z1, z2)
    assert torch.equal(inside, loss(z1, z2))


def test_at_bound_marks_the_anchors_whose_negatives_have_no_gradient():
    z1, z2, _ = draw(7, 32, 4, torch.float32)
    terms = ContrastiveLoss(Debiased(0.2), temperature=0.3).terms(z1, z2)
    (gradient,) = torch.autograd.grad(terms.log_negative_mass.sum(), terms.logits)
    assert torch.equal((gradient == 0).all(1), terms.at_bound)
    assert 0 < terms.at_bound.float().mean() < 1
    bound = torch.full_like(terms.log_negative_mass, math.log(62) - 1 / 0.3)
    torch.testing.assert_close(terms.log_negative_mass[terms.at_bound], bound[terms.at_bound])
    assert bool((terms.log_negative_mass[~terms.at_bound] > bound[~terms.at_bound]).all())


def test_second_derivatives_match_finite_differences():
    z1, z2, _ = draw(8, 3, 3)
    for estimator in (
        Uncorrected(),
        Debiased(0.1),
        HardNegative(1.0, 0.1),
        Bayesian(0.8, 1.0, 0.1),
    ):
        assert torch.autograd.gradgradcheck(
            lambda a, b, e=estimator: ContrastiveLoss(e, 0.7)(a, b), (z1, z2)
        )


def test_the_class_probability_and_the_temperature_have_gradients():
    """First and second derivatives, at the bound and away from it."""
    positive = torch.tensor([5.0, -1.0, 0.3], dtype=torch.float64, requires_grad=True)
    negatives = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    eta = torch.tensor([0.2, 0.1, 0.4], dtype=torch.float64, requires_grad=True)
    temperature = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    estimator = Debiased()
    mass = estimator.mass(
        Anchors(positive, negatives, class_probability=eta, temperature=temperature)
    )
    assert mass.at_bound.tolist()[:2] == [True, False]

    def log_mass(positive, negatives, eta, temperature):
        return estimator(positive, negatives, eta, temperature=temperature)

    inputs = (positive, negatives, eta, temperature)
    assert torch.autograd.gradcheck(log_mass, inputs)
    assert torch.autograd.gradgradcheck(log_mass, inputs)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda z: ContrastiveLoss(Debiased), "the class Debiased; expected an instance"),
        (lambda z: ContrastiveLoss("dcl"), "estimator is 'dcl'; expected an instance"),
        (lambda z: ContrastiveLoss(Uncorrected(), 0.0), "temperature is 0.0"),
        (
            lambda z: ContrastiveLoss(Uncorrected())(z.long(), z.long()),
            r"torch\.int64; expected floating-point",
        ),
        (lambda z: ContrastiveLoss(Uncorrected(), chunk_size=0), "chunk_size is 0"),
        (lambda z: ContrastiveLoss(Uncorrected())(z, z[:3]), r"shapes \(4, 5\) and \(3, 5\)"),
        (lambda z: ContrastiveLoss(Debiased())(z, z), "class_probability is missing"),
        (
            lambda z: ContrastiveLoss(Debiased())(z, z, class_probability=torch.full((8,), 0.1)),
            r"shape \(8,\); expected \(4,\)",
        ),
        (lambda z: ContrastiveLoss(Oracle())(z, z), "labels is missing"),
        (lambda z: ContrastiveLoss(Removed())(z, z), "negative_similarity is missing"),
        (
            lambda z: ContrastiveLoss(Removed(), chunk_size=2)(
                z, z, negative_similarity=torch.zeros(4, 3)
            ),
            r"shape \(4, 3\); expected \(4, 4\)",
        ),
        (
            lambda z: ContrastiveLoss(Debiased(0.1))(z, z, extra_positives=torch.zeros(4, 5)),
            r"extra_positives .*\(4, 5\); expected \(4, 5, 5\)",
        ),
    ],
)
def test_invalid_arguments_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(torch.randn(4, 5))

"""The losses between two modalities equal loops over pairs, from similarities or from features."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from tests.losses.test_contrastive import ALL, EXACT, name, reference
from trueneg.losses import (
    CrossModalLoss,
    Debiased,
    HardNegative,
    LogitScale,
    Oracle,
    Removed,
    Resampled,
    Uncorrected,
)

PROPERTIES = settings(deadline=None, max_examples=10)
SIDES = {"text": ["text"], "image": ["image"], "both": ["text", "image"]}


def draw(seed, count, dimensions=6, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    text = torch.randn(count, dimensions, generator=generator, dtype=dtype)
    image = text + torch.randn(count, dimensions, generator=generator, dtype=dtype)
    text, image = (
        torch.nn.functional.normalize(each, dim=-1).requires_grad_() for each in (text, image)
    )
    alike = 2 * torch.rand(count, count, generator=generator, dtype=dtype) - 1
    known = {
        "labels": torch.randint(3, (count,), generator=generator),
        "negative_similarity": (alike + alike.T) / 2,
        "class_probability": 0.5 * torch.rand(count, generator=generator, dtype=dtype),
        "unused": "ignore",
    }
    return text, image, known


@pytest.mark.parametrize("directions", SIDES)
def test_texts_and_images_may_be_of_different_classes(directions):
    draws = torch.Generator().manual_seed(0)
    similarity, same = (
        torch.rand(6, 6, generator=draws, dtype=torch.float64),
        torch.rand(6, 6, generator=draws) < 0.4,
    )
    losses = []
    for side in SIDES[directions]:
        for anchor in range(6):
            others = [
                (anchor, other) if side == "text" else (other, anchor)
                for other in range(6)
                if other != anchor
            ]
            mass = sum(math.exp(5 * similarity[pair]) for pair in others if not same[pair])
            losses.append(math.log1p(mass / math.exp(5 * similarity[anchor, anchor])))
    loss = CrossModalLoss(Oracle(), directions)
    assert loss(similarity, 5.0, same_class=same).item() == pytest.approx(
        sum(losses) / len(losses), rel=1e-12
    )
    with pytest.raises(ValueError, match=r"same_class .*\(5, 6\); expected \(6, 6\)"):
        CrossModalLoss(Oracle(), "text")(similarity, 5.0, same_class=same[:5])


@pytest.mark.parametrize("estimator", EXACT, ids=name)
@PROPERTIES
@given(st.integers(0, 1000), st.integers(2, 6), st.floats(0.5, 10), st.sampled_from(list(SIDES)))
def test_loss_and_gradient_equal_a_loop_over_pairs(estimator, seed, count, scale, directions):
    text, image, known = draw(seed, count)
    similarity = (text @ image.T).detach().requires_grad_()
    logit_scale = torch.tensor(scale, dtype=torch.float64, requires_grad=True)
    inputs = [similarity, logit_scale]
    actual = CrossModalLoss(estimator, directions)(similarity, logit_scale, **known)
    expected = book.cross_modal_loss(
        reference(estimator, 1 / scale, known), similarity, logit_scale, SIDES[directions]
    )
    book.assert_same(actual, expected, inputs)


@pytest.mark.parametrize("estimator", EXACT, ids=name)
@pytest.mark.parametrize("directions", list(SIDES))
@pytest.mark.parametrize("chunk_size", [None, 1, 4, 5, 100])
def test_features_and_chunks_give_the_loss_and_gradient_of_the_similarities(
    estimator, directions, chunk_size
):
    text, image, known = draw(1, 7)
    scale = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    known["class_probability"].requires_grad_()
    inputs = [text, image, scale, known["class_probability"]]
    expected = CrossModalLoss(estimator, directions).terms(text @ image.T, scale, **known)
    loss = CrossModalLoss(estimator, directions, chunk_size=chunk_size)
    for actual in (
        loss.terms(text @ image.T, scale, **known),
        loss.of_features(text, image, scale, **known),
    ):
        torch.testing.assert_close(
            actual[1:2] + actual[3:5], expected[1:2] + expected[3:5], rtol=1e-12, atol=1e-12
        )
        book.assert_same(actual.loss, expected.loss, inputs, 1e-12)


def test_both_directions_are_the_mean_of_the_two():
    text, image, known = draw(2, 6)
    losses = {
        side: CrossModalLoss(Debiased(), side)(
            text @ image.T, 3.0, class_probability=known["class_probability"]
        )
        for side in SIDES
    }
    torch.testing.assert_close(losses["both"], (losses["text"] + losses["image"]) / 2)
    transposed = CrossModalLoss(Debiased(), "text")(
        image @ text.T, 3.0, class_probability=known["class_probability"]
    )
    torch.testing.assert_close(losses["image"], transposed)


def test_removal_by_text_similarity_equals_a_batch_without_those_pairs():
    """Texts 0 and 1 are equal, so neither image is the other's negative."""
    text, image, _ = draw(3, 4)
    similarity = torch.eye(4, dtype=torch.float64)
    similarity[0, 1] = similarity[1, 0] = 1
    terms = CrossModalLoss(Removed(0.9), "text").terms(
        text @ image.T, 2.0, negative_similarity=similarity
    )
    logits = 2 * text @ image.T
    expected = torch.stack(
        [
            logits[i, [j for j in range(4) if j != i and {i, j} != {0, 1}]].logsumexp(0)
            for i in range(4)
        ]
    )
    torch.testing.assert_close(terms.log_negative_mass, expected)


@pytest.mark.parametrize("bound_gradient", [False, True])
def test_the_bound_has_a_gradient_to_the_logit_scale_only_if_requested(bound_gradient):
    """One anchor each, at the bound: log(N·g) = log 3 − γ, with or without its −1 in the gradient
    of γ.
    """
    scale = torch.tensor(14.0, requires_grad=True)
    similarity = torch.eye(4)
    terms = CrossModalLoss(Debiased(0.2), "text", bound_gradient=bound_gradient).terms(
        similarity, scale
    )
    assert bool(terms.at_bound.all())
    torch.testing.assert_close(terms.log_negative_mass, torch.full((4,), math.log(3) - 14.0))
    (gradient,) = torch.autograd.grad(terms.log_negative_mass.sum(), scale, allow_unused=True)
    if bound_gradient:
        assert gradient.item() == pytest.approx(-4)
    else:
        assert gradient is None or gradient.item() == 0


@pytest.mark.parametrize("estimator", ALL, ids=name)
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("case", ["random", "finished", "collapsed", "opposite"])
def test_loss_and_gradient_are_finite_at_a_logit_scale_of_100(estimator, autocast, case):
    text, image, known = draw(4, 8, dtype=torch.float32)
    if case == "finished":
        image = text
    if case == "collapsed":
        text = image = text[:1].expand(8, -1)
    if case == "opposite":
        image = -text
    scale = torch.tensor(100.0, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        similarity = text @ image.T
        value = CrossModalLoss(estimator)(similarity, scale, **known)
    similarity.retain_grad()
    value.backward()
    assert value.dtype == torch.float32
    assert bool(value.isfinite())
    assert bool(similarity.grad.isfinite().all())
    assert bool(scale.grad.isfinite())


def test_without_a_correction_it_is_cross_entropy_over_rows_and_columns():
    text, image, _ = draw(5, 9, dtype=torch.float32)
    logits = 20 * text @ image.T
    targets = torch.arange(9)
    expected = (
        torch.nn.functional.cross_entropy(logits, targets)
        + torch.nn.functional.cross_entropy(logits.T, targets)
    ) / 2
    torch.testing.assert_close(
        CrossModalLoss(Uncorrected()).of_features(text, image, 20).loss, expected
    )


@pytest.mark.parametrize("estimator", EXACT, ids=name)
@pytest.mark.parametrize("directions", list(SIDES))
def test_the_gradient_of_a_learned_scale_is_exact_with_an_excluded_column(estimator, directions):
    text, image, known = draw(3, 6)
    module = LogitScale(5.0).double()
    exclude = torch.zeros(6, 6, dtype=torch.bool)
    exclude[:, 2] = True
    similarity = text @ image.T
    loss = CrossModalLoss(estimator, directions, bound_gradient=True)

    def value(log_scale):
        with torch.no_grad():
            module.log_scale.fill_(log_scale)
        return loss(similarity, module(), exclude=exclude, **known)

    (gradient,) = torch.autograd.grad(value(math.log(5)), module.log_scale)
    step = 1e-6
    slope = (value(math.log(5) + step) - value(math.log(5) - step)).item() / (2 * step)
    assert gradient.item() == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_the_gradient_of_a_learned_scale_is_exact_with_a_column_of_minus_infinity():
    """Of an estimator's call, where −∞ says that a column is none."""
    generator = torch.Generator().manual_seed(0)
    cosines = torch.rand(4, 5, generator=generator, dtype=torch.float64)
    module = LogitScale(5.0).double()
    is_none = torch.zeros(4, 5, dtype=torch.bool)
    is_none[:, 1] = True
    logits = (module() * cosines).masked_fill(is_none, -math.inf)
    mass = Uncorrected()(logits[:, 0], logits[:, 1:], temperature=0.2)
    (gradient,) = torch.autograd.grad(mass.sum(), module.log_scale)
    kept = module().item() * cosines[:, 2:]
    expected = (kept.softmax(1) * kept).sum()  # d logsumexp(s·c) / d log s
    assert gradient.item() == pytest.approx(expected.item(), rel=1e-12)


def test_a_logit_scale_above_its_maximum_is_clamped_and_can_decrease():
    scale = LogitScale(initial=90.0, maximum=100.0)
    with torch.no_grad():
        scale.log_scale.fill_(math.log(150.0))
    assert scale().item() == pytest.approx(100.0)
    scale().backward()
    assert scale.log_scale.grad.item() == pytest.approx(100.0)
    assert scale.log_scale.item() == pytest.approx(math.log(100.0))


def test_recomputed_chunks_repeat_resampled_negatives():
    text, image, known = draw(6, 6)
    similarity = (text @ image.T).detach().requires_grad_()
    loss = CrossModalLoss(Resampled(3), chunk_size=4)
    direction = torch.randn(6, 6, dtype=torch.float64)

    def at(step):
        torch.manual_seed(5)
        return loss(similarity + step * direction, 2.0, **known)

    (gradient,) = torch.autograd.grad(at(0), similarity)
    slope = (at(1e-6) - at(-1e-6)).item() / 2e-6
    assert (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CrossModalLoss(Uncorrected), "the class Uncorrected; expected an instance"),
        (
            lambda: CrossModalLoss(Uncorrected(), "texts"),
            "directions is 'texts'; expected one of text, image, both",
        ),
        (
            lambda: CrossModalLoss(Uncorrected())(torch.zeros(4, 3), 1.0),
            r"shape \(4, 3\); expected \(B, B\)",
        ),
        (
            lambda: CrossModalLoss(HardNegative())(
                torch.zeros(4, 4), 1.0, class_probability=torch.full((5,), 0.1)
            ),
            r"shape \(5,\); expected \(4,\)",
        ),
        (
            lambda: CrossModalLoss(Uncorrected()).of_features(
                torch.zeros(5, 2), torch.zeros(4, 2), 1.0
            ),
            r"\(5, 2\) and \(4, 2\)",
        ),
        (
            lambda: CrossModalLoss(Uncorrected(), gather_distributed=True)(torch.zeros(4, 4), 1.0),
            "of_features.*gather_distributed",
        ),
        (lambda: LogitScale(initial=200.0), "initial is 200"),
        (
            lambda: CrossModalLoss(Uncorrected())(
                torch.eye(4).index_fill(1, torch.tensor(2), -math.inf), LogitScale()()
            ),
            "similarity contains -inf.*exclude",
        ),
        *(
            (
                lambda scale=scale: CrossModalLoss(HardNegative(1.0, 0.1))(
                    torch.eye(4), torch.tensor(scale), exclude=torch.eye(4).roll(1).bool()
                ),
                rf"logit_scale is {scale:g}; expected a positive number",
            )
            for scale in (0.0, -1.5)
        ),
    ],
)
def test_invalid_arguments_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()

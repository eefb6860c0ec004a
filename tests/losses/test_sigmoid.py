"""The sigmoid loss equals a loop over pairs and OpenCLIP's SigLipLoss, also at its extremes."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from trueneg.losses import ContrastiveLoss, CrossModalLoss, OpenClipLoss, Sigmoid, build

PROPERTIES = settings(deadline=None, max_examples=10)
ROUNDING = 1e-8  # torch's softplus leaves out log(1 + e^−x) ≤ 2e-9 where x > 20
SEEDS, BIASES = st.integers(0, 1000), st.floats(-10, 5)
POSITIVES = pytest.mark.parametrize("positives", ["own", "labels"])


def draws(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def is_positive(positives, labels, i, j):
    """Whether sample j is a further positive of sample i."""
    return positives == "labels" and bool(labels[i] == labels[j])


@POSITIVES
@pytest.mark.parametrize("chunk_size", [None, 3])
@PROPERTIES
@given(SEEDS, st.integers(2, 5), BIASES, st.floats(0.1, 2))
def test_two_views_equal_a_loop_over_pairs(positives, chunk_size, seed, count, bias, temperature):
    z1, z2, labels = (
        draws(seed, count, 3).requires_grad_(),
        draws(seed + 1, count, 3).requires_grad_(),
        torch.arange(count) % 2,
    )
    loss = ContrastiveLoss(
        Sigmoid(bias, positives=positives), temperature, chunk_size=chunk_size
    ).double()
    views, total, b = (z1, z2), 0.0, loss.estimator.bias[0]
    for view, i in itertools.product((0, 1), range(count)):
        others = [(w, j) for w in (0, 1) for j in range(count) if j != i]
        logits = [book.cosine(views[view][i], views[w][j]) / temperature for w, j in others]
        marks = [is_positive(positives, labels, i, j) for _, j in others]
        positive = book.cosine(views[view][i], views[1 - view][i]) / temperature
        total = total + book.sigmoid(positive, logits, marks, b)
    known = {"labels": labels} if positives == "labels" else {}
    book.assert_same(
        loss(z1, z2, **known),
        total / (2 * count),
        [z1, z2, loss.estimator.bias],
        tolerance=ROUNDING,
    )


@POSITIVES
@pytest.mark.parametrize("directions", ["text", "image", "both"])
@pytest.mark.parametrize("chunk_size", [None, 2])
@PROPERTIES
@given(SEEDS, st.integers(2, 5), st.integers(0, 2), BIASES, st.booleans())
def test_pairs_equal_a_loop_over_pairs(
    positives, directions, chunk_size, seed, count, hard, bias, excludes
):
    similarity = draws(seed, count, count + hard).requires_grad_()
    labels = torch.cat((torch.arange(count) % 2, torch.full((hard,), -1)))
    excluded = (
        draws(seed + 2, count, count + hard) > 0
        if excludes
        else torch.zeros(count, count + hard, dtype=torch.bool)
    )
    loss = CrossModalLoss(
        Sigmoid(bias, positives=positives), directions, chunk_size=chunk_size
    ).double()
    scale, losses = torch.tensor(2.0, dtype=torch.float64, requires_grad=True), []
    for direction in ("text", "image") if directions == "both" else (directions,):
        for i in range(count):
            others = [j for j in range(count + hard * (direction == "text")) if j != i]
            places = [(i, j) if direction == "text" else (j, i) for j in others]
            places = [place for place in places if not excluded[place]]
            marks = [is_positive(positives, labels, *place) for place in places]
            losses.append(
                book.sigmoid(
                    scale * similarity[i, i],
                    [scale * similarity[p] for p in places],
                    marks,
                    loss.estimator.bias[0],
                )
            )
    known = {"labels": labels} if positives == "labels" else {}
    known["exclude"] = excluded if excludes else None
    actual = loss(similarity, scale, **known, unused="ignore")
    book.assert_same(
        actual,
        sum(losses) / len(losses),
        [similarity, scale, loss.estimator.bias],
        tolerance=ROUNDING,
    )


@pytest.mark.parametrize("directions", ["text", "both"])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("chunk_size", [None, 5])
def test_it_equals_openclips_siglip_loss(directions, own, chunk_size):
    """With the loss's own bias, or that of OpenCLIP's model in its place."""
    open_clip = pytest.importorskip("open_clip", reason="compares with OpenCLIP's own loss")
    image, text = (
        torch.nn.functional.normalize(draws(seed, 12, 8), dim=1).requires_grad_() for seed in (0, 1)
    )
    scale = torch.tensor(10.0, dtype=torch.float64, requires_grad=True)
    of_model = torch.tensor(-3.0, dtype=torch.float64, requires_grad=True)
    loss = OpenClipLoss(Sigmoid(), directions, chunk_size=chunk_size).double()
    inputs = [image, text, scale, loss.estimator.bias, of_model]
    bias = loss.estimator.bias if own else of_model
    # a sum over pairs, divided by B
    theirs = open_clip.loss.SigLipLoss()(image, text, scale, bias)
    ours = loss(image, text, scale) if own else loss(image, text, scale, of_model)
    book.assert_same(ours, theirs, inputs)
    found = loss(image, text, scale, logit_bias=bias, output_dict=True)
    assert list(found) == ["contrastive_loss"]
    book.assert_same(found["contrastive_loss"], theirs, inputs)


@pytest.mark.parametrize("bias", [-300.0, -40.0, 0.0, 40.0, 300.0])
@pytest.mark.parametrize("scale", [0.1, 10.0, 1000.0])
def test_large_and_small_losses_have_the_values_and_gradients_of_the_equation(bias, scale):
    similarity = draws(0, 6, 6).tanh().requires_grad_()
    loss = CrossModalLoss(Sigmoid(bias), "text").double()
    sign = 2 * torch.eye(6, dtype=torch.float64) - 1
    expected = (
        torch.logaddexp(
            -sign * (scale * similarity + loss.estimator.bias), torch.zeros((), dtype=torch.float64)
        ).sum()
        / 6
    )
    # torch's softplus leaves out log(1 + e^−x) ≤ 2e-9 where x > 20.
    book.assert_same(
        loss(similarity, scale), expected, [similarity, loss.estimator.bias], tolerance=1e-7
    )


def test_a_vanishing_loss_keeps_its_relative_precision_and_its_gradient():
    positive = torch.tensor([0.0, 60.0, 300.0], dtype=torch.float64, requires_grad=True)
    loss = Sigmoid(0.0)(positive, torch.full((3, 2), -math.inf, dtype=torch.float64))
    expected = torch.exp(-positive).log1p()
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(
        *(torch.autograd.grad(each.sum(), positive)[0] for each in (loss, expected)),
        rtol=1e-12,
        atol=0,
    )


@POSITIVES
@pytest.mark.parametrize("bias", [-40.0, -1.0, 40.0])
def test_the_logged_mass_is_that_of_a_softmax_with_this_loss(positives, bias):
    similarity, labels = draws(3, 6, 8), torch.arange(8) % 3
    known = {"labels": labels} if positives == "labels" else {}
    loss = CrossModalLoss(Sigmoid(bias, positives=positives), reduction="none").double()
    terms = loss.terms(similarity, 2.0, **known)
    each = torch.log1p(torch.exp(terms.log_negative_mass - terms.positive[:, 0]))
    torch.testing.assert_close(each, terms.loss, rtol=1e-9, atol=1e-12)
    assert not terms.at_bound.any()


def test_in_single_precision_a_loss_of_zero_has_no_gradient():
    positive, negatives = (
        torch.full((2,), 500.0, requires_grad=True),
        torch.full((2, 3), -500.0, requires_grad=True),
    )
    loss = Sigmoid()(positive, negatives).sum()
    assert loss.item() < 1e-30
    for gradient in torch.autograd.grad(loss, [positive, negatives]):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@POSITIVES
@PROPERTIES
@given(SEEDS, BIASES)
def test_columns_that_are_not_negatives_add_nothing_even_if_they_match(positives, seed, bias):
    positive, negatives = draws(seed, 4).requires_grad_(), draws(seed + 1, 4, 7).requires_grad_()
    valid = draws(seed + 2, 4, 7) > 0
    valid[0] = False  # an anchor without negatives
    same = draws(seed + 3, 4, 7) > 0
    same[:2] = True
    known = {"same_class": same} if positives == "labels" else {}
    sigmoid = Sigmoid(bias, positives=positives).double()
    loss = sigmoid(positive, negatives, valid=valid, **known)
    expected = []
    for i in range(4):
        columns = [j for j in range(7) if valid[i, j]]
        marks = [positives == "labels" and bool(same[i, j]) for j in columns]
        logits = [negatives[i, j] for j in columns]
        expected.append(book.sigmoid(positive[i], logits, marks, sigmoid.bias[0]))
    book.assert_same(
        loss.sum(), sum(expected), [positive, negatives, sigmoid.bias], tolerance=ROUNDING
    )
    torch.testing.assert_close(loss, torch.stack(expected), rtol=ROUNDING, atol=ROUNDING)
    (gradient,) = torch.autograd.grad(loss.sum(), negatives)
    assert torch.equal(gradient != 0, valid)
    # of its positive alone
    assert loss[0].item() == pytest.approx(math.log1p(math.exp(-(positive[0].item() + bias))))


@POSITIVES
def test_positives_are_marked_as_false_negatives(positives):
    loss, labels = CrossModalLoss(Sigmoid(positives=positives), "text"), torch.tensor([0, 1, 0, 1])
    terms = loss.terms(draws(1, 4, 4), 1.0, labels=labels, unused="ignore")
    assert loss.estimator.marks == (positives != "own")
    assert [marked.tolist() for marked in terms.removed] == [
        (labels[:, None] == labels).tolist()
    ] * (positives == "labels")


def test_the_bias_is_a_parameter_of_the_loss():
    loss = build({"name": "sigmoid", "bias": -3})
    assert [(name, value.item()) for name, value in loss.named_parameters()] == [
        ("estimator.bias", -3.0)
    ]
    assert not any(
        value.requires_grad
        for value in build({"name": "sigmoid", "learned_bias": False}).parameters()
    )
    assert repr(loss.estimator) == "Sigmoid(bias=-3, positives='own')"
    assert loss.estimator.bias.shape == (1,)  # FSDP2 cannot shard scalars


def test_a_scalar_bias_of_an_earlier_state_is_loaded():
    loss = CrossModalLoss(Sigmoid())
    loss.load_state_dict({"estimator.bias": torch.tensor(-4.5)})
    assert loss.state_dict()["estimator.bias"].tolist() == [-4.5]


@pytest.mark.parametrize(
    "change", [{"bias": math.nan}, {"positives": "all"}, {"positives": "guide"}]
)
def test_invalid_settings_are_refused(change):
    ((key, value),) = change.items()
    with pytest.raises(ValueError, match=rf"{key}.* '?{value}"):
        Sigmoid(**change)


def test_what_changes_a_softmax_is_refused():
    z1, z2 = draws(0, 4, 3), draws(1, 4, 3)
    calls = [
        ({"decoupled": True}, {}),
        ({"targets": {"name": "half_uniform"}}, {}),
        ({}, {"targets": torch.eye(4)}),
    ]
    for options, call in calls:
        with pytest.raises(ValueError, match=r"Sigmoid.*neither targets nor decoupled"):
            build({"name": "sigmoid", **options})(z1, z2, **call)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda z: CrossModalLoss(Sigmoid())(z @ z.mT, 1.0, labels=torch.arange(4)),
            "labels is given, but Sigmoid.* does not use it",
        ),
        (
            lambda z: CrossModalLoss(Sigmoid(positives="labels"))(z @ z.mT, 1.0),
            "labels is missing",
        ),
        (
            lambda z: Sigmoid(positives="labels")(z[:, 0], z),
            "same_class is missing",
        ),
        (
            lambda z: Sigmoid(positives="labels")(
                z[:, 0], z, same_class=torch.ones(4, 2, dtype=torch.bool)
            ),
            r"same_class has shape \(4, 2\); expected \(4, 3\)",
        ),
    ],
)
def test_missing_and_unused_facts_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(draws(0, 4, 3))

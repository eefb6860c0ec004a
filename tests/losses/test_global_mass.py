"""Moving averages of the negative mass equal a loop over plain numbers and the authors' code."""

import functools
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from tests.losses.loops import waves
from trueneg.losses import ContrastiveLoss, CrossModalLoss, Uncorrected, build
from trueneg.losses.adapters import RankingLoss
from trueneg.losses.estimators.global_mass import GlobalMass

PROPERTIES = settings(deadline=None, max_examples=15)
SEEDS = st.integers(0, 10_000)
RATES = st.sampled_from([0.1, 0.5, 0.9, 1.0])


def uniform(seed, *shape):
    return (
        2 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        - 1
    )


def averaged(before, positive, negatives, rate):
    """Return the new average of an anchor (None: it has none yet), and the batch's mean of e^(u −
    p).
    """
    mean = book.exp_sum([u - positive for u in negatives]) / len(negatives)
    return mean.item() if before is None else (1 - rate) * before + rate * mean.item(), mean


def anchor(average, mean, count, decoupled):
    """Return an anchor's loss, and a scalar with its gradient: that of the mean, divided by the
    average or 1/N + the average.
    """
    if decoupled:
        return math.log(count * average), mean / average
    return math.log(1 + count * average), mean / (1 / count + average)


def compare(terms, losses, surrogates, inputs):
    assert terms.loss.item() == pytest.approx(sum(losses) / len(losses), rel=1e-9)
    torch.testing.assert_close(
        book.gradients(terms.loss, inputs),
        book.gradients(sum(surrogates) / len(surrogates), inputs),
        rtol=1e-9,
        atol=1e-12,
    )


def pairs_by_loop(similarity, scale, averages, rate, decoupled, excluded):
    """Return losses, surrogates and new averages of text anchors, then image anchors."""
    losses, surrogates, new = [], [], []
    for side in (0, 1):
        for i in range(len(similarity)):
            places = [(i, j) if side == 0 else (j, i) for j in range(len(similarity)) if j != i]
            logits = [scale * similarity[place] for place in places if not excluded[place]]
            before = averages[side * len(similarity) + i]
            average, mean = before, None
            if logits:
                average, mean = averaged(before, scale * similarity[i, i], logits, rate)
                loss, surrogate = anchor(average, mean, len(logits), decoupled)
            losses.append(loss if logits else 0.0)
            surrogates.append(surrogate if logits else 0.0 * similarity.sum())
            new.append(average)
    return losses, surrogates, new


def to_log(averages):
    return torch.tensor(
        [-math.inf if average is None else math.log(average) for average in averages],
        dtype=torch.float64,
    )


@PROPERTIES
@given(SEEDS, RATES, st.booleans())
def test_three_updates_on_pairs_equal_a_loop(seed, rate, decoupled):
    """With pairs that are not negatives, the first time all of those of one anchor."""
    count, scale, averages, kept = 4, 6.0, [None] * 8, []
    loss = CrossModalLoss(GlobalMass(rate, kept.append), decoupled=decoupled)
    for update in range(3):
        similarity = uniform(seed + update, count, count).requires_grad_()
        excluded = uniform(seed + update + 7, count, count) > 0.5
        excluded[0] |= update == 0
        terms = loss.terms(
            similarity, scale, positive_similarity=to_log(averages), exclude=excluded
        )
        losses, surrogates, averages = pairs_by_loop(
            similarity, scale, averages, rate, decoupled, excluded
        )
        compare(terms, losses, surrogates, [similarity])
        torch.testing.assert_close(torch.cat(kept), to_log(averages), rtol=1e-9, atol=1e-9)
        kept.clear()


@PROPERTIES
@given(SEEDS, RATES, st.booleans())
def test_filtered_negatives_leave_the_mean_and_n_as_it_is(seed, rate, decoupled):
    """With pairs that are not negatives; all of the first anchor's negatives are above its
    threshold.
    """
    count, scale = 5, 6.0
    similarity, relative = (
        uniform(seed, count, count).requires_grad_(),
        uniform(seed + 1, count, count),
    )
    excluded = uniform(seed + 2, count, count) > 0.6
    relative[0] = 0.1
    averages, kept, losses, surrogates, new, removed = (
        [0.3, None, 5.0, 40.0, 1.0],
        [],
        [],
        [],
        [],
        [],
    )
    loss = CrossModalLoss(GlobalMass(rate, kept.append, filtered=True), "text", decoupled=decoupled)
    known = {"positive_similarity": to_log(averages), "negative_similarity": relative}
    terms = loss.terms(similarity, scale, exclude=excluded, **known)
    for i, before in enumerate(averages):
        negatives = [j for j in range(count) if j != i and not excluded[i, j]]
        below = [scale * similarity[i, j] for j in negatives if relative[i, j] <= 0]
        removed.append(len(negatives) - len(below))
        if not below:
            new.append(before)
            losses.append(0.0)
            surrogates.append(0.0 * similarity.sum())
            continue
        average, mean = averaged(before, scale * similarity[i, i], below, rate)
        for values, value in zip(
            (losses, surrogates), anchor(average, mean, len(negatives), decoupled), strict=True
        ):
            values.append(value)
        new.append(average)
    compare(terms, losses, surrogates, [similarity])
    torch.testing.assert_close(kept[0], to_log(new), rtol=1e-9, atol=1e-9)
    left_out = terms.removed[0] & ~terms.logits[0].isneginf()
    assert left_out.sum(1).tolist() == removed


def test_a_call_without_columns_to_ignore_filters_too():
    """Three of four negatives remain, all with a mean of 1 like the average: N is still 4."""
    known = {
        "similarity": torch.tensor([[0.1, -0.1, 0.0, -0.2]]),
        "positive_similarity": torch.zeros(1),
    }
    mass = GlobalMass(filtered=True)(torch.zeros(1), torch.tensor([[9.0, 0.0, 0.0, 0.0]]), **known)
    assert mass.exp().item() == pytest.approx(4)


@PROPERTIES
@given(SEEDS, RATES, st.booleans())
def test_views_equal_a_loop(seed, rate, decoupled):
    z1, z2 = (uniform(seed + view, 4, 3).requires_grad_() for view in (0, 1))
    averages, kept, losses, surrogates, new = [0.3, None, 5.0, 40.0], [], [], [], []
    loss = ContrastiveLoss(GlobalMass(rate, kept.append), 0.3, decoupled=decoupled)
    terms = loss.terms(z1, z2, positive_similarity=to_log(averages))
    for own, other in ((z1, z2), (z2, z1)):
        for i in range(4):
            negatives = [
                book.cosine(own[i], view[j]) / 0.3 for view in (z1, z2) for j in range(4) if j != i
            ]
            average, mean = averaged(
                averages[i], book.cosine(own[i], other[i]) / 0.3, negatives, rate
            )
            for values, value in zip(
                (losses, surrogates), anchor(average, mean, 6, decoupled), strict=True
            ):
                values.append(value)
            new.append(average)
    compare(terms, losses, surrogates, [z1, z2])
    torch.testing.assert_close(kept[0], to_log(new), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"decoupled": True}, {"chunk_size": 3}])
@pytest.mark.parametrize("directions", [None, "both"])
def test_a_rate_of_1_is_uncorrected(directions, options):
    z1, z2 = (uniform(view, 5, 4).requires_grad_() for view in (0, 1))
    stored = uniform(2, 10)
    found = []
    for estimator, known in (
        (GlobalMass(1.0), {"positive_similarity": stored}),
        (Uncorrected(), {}),
    ):
        if directions is None:
            found.append(ContrastiveLoss(estimator, 0.2, **options).terms(z1, z2, **known).loss)
        else:
            found.append(
                CrossModalLoss(estimator, **options).of_features(z1, z2, 5.0, **known).loss
            )
    book.assert_same(*found, [z1, z2])


def test_the_mean_gradient_of_small_batches_approaches_that_of_all_negatives():
    """CL's gradient of a batch of four is that of a different loss, however many batches are
    averaged.
    """
    similarity = uniform(0, 24, 24).fill_diagonal_(0.4).requires_grad_()
    whole = book.gradients(
        CrossModalLoss(Uncorrected(), "text", decoupled=True)(similarity, 8.0), [similarity]
    )[0]
    averages, kept = torch.full((24,), -math.inf, dtype=torch.float64), []
    loss = CrossModalLoss(GlobalMass(0.03, kept.append), "text", decoupled=True)
    uncorrected = CrossModalLoss(Uncorrected(), "text", decoupled=True)
    draws, sums = torch.Generator().manual_seed(0), torch.zeros(2, 24, 24, dtype=torch.float64)
    for update in range(1200):
        batch = torch.randperm(24, generator=draws)[:4]
        square = similarity[batch][:, batch]
        if update >= 300:
            each = (
                loss(square, 8.0, positive_similarity=averages[batch]),
                uncorrected(square, 8.0),
            )
            sums += torch.stack([book.gradients(value, [similarity])[0] for value in each])
        else:
            loss(square, 8.0, positive_similarity=averages[batch])
        averages[batch] = kept.pop()
    logits = 8.0 * (similarity - similarity.diagonal()[:, None]).detach().fill_diagonal_(-math.inf)
    assert (averages.exp() / (logits.exp().sum(1) / 23)).log().abs().mean() < 0.2
    by_average, by_batch = (((each / each.norm()) - whole / whole.norm()).norm() for each in sums)
    assert by_average < by_batch / 2


@pytest.mark.parametrize("stored", [-math.inf, -150.0, 0.0, 150.0])
def test_float32_logits_of_100_give_finite_losses_and_gradients(stored):
    for sign, decoupled in itertools.product((-1, 1), (False, True)):
        similarity = (sign * (2 * torch.eye(4) - 1)).requires_grad_()
        loss = CrossModalLoss(GlobalMass(0.5), decoupled=decoupled)(
            similarity, 100.0, positive_similarity=torch.full((4,), stored)
        )
        loss.backward()
        assert loss.isfinite()
        assert similarity.grad.isfinite().all()


@pytest.mark.parametrize(
    ("gamma", "scale", "of_texts", "of_images"),
    [
        (0.3, 5.0, 12.611501128602375, 10.658000846309685),
        (0.9, 20.0, 20.830028634308796, 17.827779125528842),
    ],
)
def test_gradients_after_three_updates_equal_the_authors_code(gamma, scale, of_texts, of_images):
    """``FastCLIPLoss`` of Optimization-AI/fast_clip (efd89d5, MIT), ``multiply_tau=False``; it sums
    over the two directions.
    """
    averages, kept = torch.full((2, 6), -math.inf, dtype=torch.float64), []
    loss = CrossModalLoss(GlobalMass(gamma, kept.append), decoupled=True)
    for update in range(3):
        samples = torch.tensor([(update + row) % 6 for row in range(5)])
        text, image = (
            torch.nn.functional.normalize(
                waves(shift + 0.2 * update, step).double(), dim=-1
            ).requires_grad_()
            for shift, step in ((1.1, 0.3), (1.6, 0.35))
        )
        terms = loss.of_features(
            text, image, scale, positive_similarity=averages[:, samples].flatten()
        )
        averages[:, samples] = torch.stack(kept)
        kept.clear()
    lengths = [2 * gradient.norm().item() for gradient in book.gradients(terms.loss, [text, image])]
    assert lengths == pytest.approx([of_texts, of_images], rel=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GlobalMass(0.0), r"rate is 0\.0"),
        (lambda: GlobalMass(1.1), r"rate is 1\.1"),
        (lambda: GlobalMass(math.nan), "rate is nan"),
        (
            lambda: GlobalMass()(torch.zeros(3), torch.zeros(3, 4)),
            "positive_similarity is missing; global",
        ),
        (
            lambda: GlobalMass(filtered=True)(torch.zeros(3), torch.zeros(3, 4)),
            "similarity is missing",
        ),
        (
            lambda: GlobalMass()(
                torch.zeros(3), torch.zeros(3, 4), positive_similarity=torch.zeros(4)
            ),
            r"\(4,\); expected \(3,\)",
        ),
        # A guide's similarity of the positive is no average.
        (
            lambda: RankingLoss(
                torch.nn.Identity(), build({"name": "global"}).estimator, guide=torch.nn.Identity()
            ),
            "guide is given",
        ),
    ],
)
def test_invalid_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_guides_similarity_does_not_stand_for_an_average():
    loss = RankingLoss(torch.nn.Identity(), GlobalMass(filtered=True), same_text=False)
    columns = [{"sentence_embedding": uniform(column, 3, 4)} for column in (0, 1)]
    with pytest.raises(ValueError, match="positive_similarity is missing; global"):
        loss(columns)


def test_it_compiles_without_a_graph_break():
    loss = functools.partial(CrossModalLoss(GlobalMass(0.5)), positive_similarity=torch.zeros(8))
    similarity = uniform(0, 4, 4)
    torch.testing.assert_close(
        torch.compile(loss, fullgraph=True, backend="eager")(similarity, 3.0), loss(similarity, 3.0)
    )

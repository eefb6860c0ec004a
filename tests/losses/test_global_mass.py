"""Moving averages of the negative mass equal a loop over plain numbers and the authors' code."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from tests.losses.loops import waves
from trueneg.losses import ContrastiveLoss, CrossModalLoss, GlobalMass, Uncorrected, build
from trueneg.losses.adapters import RankingLoss

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


def compare(value, losses, surrogates, inputs):
    assert value.item() == pytest.approx(sum(losses) / len(losses), rel=1e-9)
    torch.testing.assert_close(
        book.gradients(value, inputs),
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
            before = averages[side][i]
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


def kept(averages, samples, new):
    """Return the averages of a direction after a batch: of a sample drawn several times, the
    largest new one.
    """
    after = list(averages)
    for sample in set(samples):
        found = [each for each, other in zip(new, samples, strict=True) if other == sample]
        known = [each for each in found if each is not None]
        after[sample] = max(known) if known else None
    return after


def assert_state(loss, *directions):
    """Compare the averages of a loss with those of one or both directions."""
    state = loss.estimator.log_averages
    rows = [to_log(averages) for averages in directions]
    rows += [torch.full_like(state[0], -math.inf)] * (2 - len(rows))
    torch.testing.assert_close(state, torch.stack(rows), rtol=1e-9, atol=1e-9)


BATCHES = st.lists(
    st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=3, max_size=3
)  # of six samples, some of which are drawn twice


@PROPERTIES
@given(SEEDS, BATCHES, RATES, st.booleans())
def test_three_updates_on_pairs_equal_a_loop(seed, batches, rate, decoupled):
    """With pairs that are not negatives, the first time all of those of one anchor."""
    scale, averages = 6.0, [[None] * 6, [None] * 6]
    loss = CrossModalLoss(GlobalMass(6, rate), decoupled=decoupled).double()
    for update, samples in enumerate(batches):
        similarity = uniform(seed + update, 4, 4).requires_grad_()
        excluded = uniform(seed + update + 7, 4, 4) > 0.5
        excluded[0] |= update == 0
        known = {"index": torch.tensor(samples), "exclude": excluded}
        loss.keeps_averages = False
        terms = loss.terms(similarity, scale, **known)
        assert_state(loss, *averages)  # as before
        loss.keeps_averages = True
        losses, surrogates, new = pairs_by_loop(
            similarity,
            scale,
            [[of_direction[sample] for sample in samples] for of_direction in averages],
            rate,
            decoupled,
            excluded,
        )
        torch.testing.assert_close(terms.log_averages, to_log(new), rtol=1e-9, atol=1e-9)
        value = loss(similarity, scale, **known)
        averages = [
            kept(of_direction, samples, new[4 * side : 4 * side + 4])
            for side, of_direction in enumerate(averages)
        ]
        assert_state(loss, *averages)
        for each in (terms.loss, value):
            compare(each, losses, surrogates, [similarity])


def test_a_sample_that_is_drawn_twice_keeps_the_larger_average():
    similarity = torch.tensor([[0.9, 0.1, 0.0], [0.4, 0.5, 0.3], [-0.1, 0.2, 0.8]]).double()
    loss = CrossModalLoss(GlobalMass(5, rate=1.0), "text").double()
    loss(similarity, 4.0, index=torch.tensor([3, 0, 3]))
    means = [
        sum(math.exp(4 * (similarity[i, j] - similarity[i, i])) for j in range(3) if j != i) / 2
        for i in range(3)
    ]
    assert means[2] > means[0]
    assert_state(loss, [means[1], None, None, means[2], None])
    # also if it is smaller than before
    loss(2 * similarity, 4.0, index=torch.tensor([3, 0, 3]))
    means = [
        sum(math.exp(8 * (similarity[i, j] - similarity[i, i])) for j in range(3) if j != i) / 2
        for i in range(3)
    ]
    assert_state(loss, [means[1], None, None, max(means[0], means[2]), None])


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_changes_no_average(wrong):
    index, views = torch.tensor([4, 0, 6]), two_views(0, 3)
    loss = CrossModalLoss(GlobalMass(8, 0.3)).double()
    for known in (0, 6):  # without an average, and with one
        state = loss.estimator.log_averages.clone()
        assert state.isfinite().sum() == known
        broken = torch.full_like(views[0], wrong)
        loss.of_features(broken, views[1], 5.0, index=index)
        assert torch.equal(loss.estimator.log_averages, state)
        assert loss.of_features(*views, 5.0, index=index).loss.isfinite()


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
    averages, losses, surrogates, new, removed = [0.3, None, 5.0, 40.0, 1.0], [], [], [], []
    loss = CrossModalLoss(
        GlobalMass(count, rate, filtered=True), "text", decoupled=decoupled
    ).double()
    loss.estimator.log_averages[0] = to_log(averages)
    known = {"index": torch.arange(count), "negative_similarity": relative, "exclude": excluded}
    loss.keeps_averages = False
    terms = loss.terms(similarity, scale, **known)
    loss.keeps_averages = True
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
    compare(terms.loss, losses, surrogates, [similarity])
    compare(loss(similarity, scale, **known), losses, surrogates, [similarity])
    assert_state(loss, new)
    left_out = terms.removed[0] & ~terms.logits[0].isneginf()
    assert left_out.sum(1).tolist() == removed


def test_a_call_without_columns_to_ignore_filters_too():
    """Three of four negatives remain, all with a mean of 1 like the average: N is still 4."""
    known = {
        "similarity": torch.tensor([[0.1, -0.1, 0.0, -0.2]]),
        "log_average": torch.zeros(1),
    }
    mass = GlobalMass(1, filtered=True)(
        torch.zeros(1), torch.tensor([[9.0, 0.0, 0.0, 0.0]]), **known
    )
    assert mass.exp().item() == pytest.approx(4)


@PROPERTIES
@given(SEEDS, BATCHES, RATES, st.booleans())
def test_three_updates_on_views_equal_a_loop(seed, batches, rate, decoupled):
    """Both views of a sample share its average, and the mean of the new ones is kept."""
    averages = [0.3, None, 5.0, 40.0, None, 0.01]
    loss = ContrastiveLoss(GlobalMass(6, rate), 0.3, decoupled=decoupled).double()
    loss.estimator.log_averages[0] = to_log(averages)
    for update, samples in enumerate(batches):
        z1, z2 = (uniform(seed + 2 * update + view, 4, 3).requires_grad_() for view in (0, 1))
        value = loss(z1, z2, index=torch.tensor(samples))
        losses, surrogates, new = [], [], []
        for own, other in ((z1, z2), (z2, z1)):
            for i in range(4):
                negatives = [
                    book.cosine(own[i], view[j]) / 0.3
                    for view in (z1, z2)
                    for j in range(4)
                    if j != i
                ]
                average, mean = averaged(
                    averages[samples[i]], book.cosine(own[i], other[i]) / 0.3, negatives, rate
                )
                for values, each in zip(
                    (losses, surrogates), anchor(average, mean, 6, decoupled), strict=True
                ):
                    values.append(each)
                new.append(average)
        compare(value, losses, surrogates, [z1, z2])
        means = [(new[i] + new[4 + i]) / 2 for i in range(4)]
        averages = kept(averages, samples, means)
        assert_state(loss, averages)


def two_views(seed, count=5):
    return [uniform(seed + view, count, 4).requires_grad_() for view in (0, 1)]


def loss_of(directions, estimator, **options):
    if directions is None:
        return ContrastiveLoss(estimator, 0.2, **options)
    return CrossModalLoss(estimator, directions, **options)


def value_of(loss, z1, z2, index):
    """Call a loss of features in training or evaluation mode."""
    if isinstance(loss, ContrastiveLoss):
        return loss(z1, z2, index=index)
    terms = loss.of_features(z1, z2, 5.0, index=index)
    return terms.loss


@pytest.mark.parametrize("directions", [None, "both"])
def test_in_evaluation_mode_averages_are_used_and_stay(directions):
    index = torch.tensor([4, 0, 6, 2, 4])
    loss = loss_of(directions, GlobalMass(8, 0.3)).double()
    state = loss.estimator.log_averages.clone()
    for update, known in enumerate((0, 4)):
        assert state[0].isfinite().sum() == known
        expected = value_of(loss.eval(), *two_views(2 * update), index)
        assert torch.equal(loss.estimator.log_averages, state)
        assert torch.equal(value_of(loss.train(), *two_views(2 * update), index), expected)
        assert not torch.equal(loss.estimator.log_averages, state)
        state = loss.estimator.log_averages.clone()
    fresh = loss_of(directions, GlobalMass(8, 0.3)).double()
    assert value_of(fresh, *two_views(2), index) != expected  # without an average


@pytest.mark.parametrize("directions", [None, "text", "image", "both"])
def test_a_loaded_state_continues_as_the_saved_one(directions, tmp_path):
    first, second = (loss_of(directions, GlobalMass(9, 0.3)) for _ in range(2))
    index = torch.tensor([4, 0, 6, 2, 4])
    for update in range(2):
        value_of(first, *two_views(update), index + update)
    assert list(first.state_dict()) == ["estimator.log_averages"]
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    values = [value_of(loss, *two_views(7), index) for loss in (first, second)]
    assert torch.equal(*values)
    states = [loss.estimator.log_averages for loss in (first, second)]
    assert torch.equal(*states)
    assert states[0].dtype == torch.float32
    assert states[0].isfinite().sum() == (16 if directions == "both" else 8)
    with pytest.raises(RuntimeError, match="log_averages"):  # of another number of samples
        loss_of(directions, GlobalMass(10)).load_state_dict(first.state_dict())


@pytest.mark.parametrize("directions", [None, "both"])
@pytest.mark.parametrize("chunk_size", [1, 3, 50])
@pytest.mark.parametrize("decoupled", [False, True])
def test_chunks_give_the_same_loss_gradient_and_state(directions, chunk_size, decoupled):
    """The backward pass follows the update, and computes the chunks again."""
    index = torch.tensor([4, 0, 6, 2, 4])
    whole, parts = (
        loss_of(directions, GlobalMass(8, 0.3), chunk_size=size, decoupled=decoupled).double()
        for size in (None, chunk_size)
    )
    for update in range(3):
        views = two_views(2 * update)
        values = [value_of(loss, *views, (index + update) % 8) for loss in (whole, parts)]
        book.assert_same(*values, views, 1e-12)
        states = [loss.estimator.log_averages for loss in (whole, parts)]
        torch.testing.assert_close(*states, rtol=1e-12, atol=1e-12)
    assert states[0].isfinite().sum() == (8 if directions is None else 16)


def test_the_mean_of_several_calls_can_be_kept():
    """As of several heads or layers of one batch."""
    index, views = torch.tensor([2, 0, 1, 4]), [two_views(seed, 4) for seed in (0, 2)]
    loss = CrossModalLoss(GlobalMass(5, 0.3)).double()
    loss.keeps_averages = False
    terms = [loss.of_features(*each, 5.0, index=index) for each in views]
    loss.keep(index, *terms)
    means = sum(each.log_averages.exp() for each in terms).view(2, 4) / 2
    expected = torch.full((2, 5), -math.inf, dtype=torch.float64)
    expected[:, index] = means.log()
    torch.testing.assert_close(loss.estimator.log_averages, expected, rtol=1e-12, atol=0)
    loss.eval().keep(index, terms[0])
    torch.testing.assert_close(loss.estimator.log_averages, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("options", [{}, {"decoupled": True}, {"chunk_size": 3}])
@pytest.mark.parametrize("directions", [None, "both"])
def test_a_rate_of_1_is_uncorrected(directions, options):
    z1, z2 = two_views(0)
    index = torch.tensor([7, 2, 0, 9, 4])
    remembering = loss_of(directions, GlobalMass(10, 1.0), **options).double()
    remembering.estimator.log_averages.copy_(uniform(2, 2, 10))
    plain = loss_of(directions, Uncorrected(), **options)
    expected = plain(z1, z2) if directions is None else plain.of_features(z1, z2, 5.0).loss
    book.assert_same(value_of(remembering, z1, z2, index), expected, [z1, z2])


def test_the_mean_gradient_of_small_batches_approaches_that_of_all_negatives():
    """CL's gradient of a batch of four is that of a different loss, however many batches are
    averaged.
    """
    similarity = uniform(0, 24, 24).fill_diagonal_(0.4).requires_grad_()
    whole = book.gradients(
        CrossModalLoss(Uncorrected(), "text", decoupled=True)(similarity, 8.0), [similarity]
    )[0]
    loss = CrossModalLoss(GlobalMass(24, 0.03), "text", decoupled=True).double()
    uncorrected = CrossModalLoss(Uncorrected(), "text", decoupled=True)
    draws, sums = torch.Generator().manual_seed(0), torch.zeros(2, 24, 24, dtype=torch.float64)
    for update in range(1200):
        batch = torch.randperm(24, generator=draws)[:4]
        square = similarity[batch][:, batch]
        if update >= 300:
            each = loss(square, 8.0, index=batch), uncorrected(square, 8.0)
            sums += torch.stack([book.gradients(value, [similarity])[0] for value in each])
        else:
            loss(square, 8.0, index=batch)
    logits = 8.0 * (similarity - similarity.diagonal()[:, None]).detach().fill_diagonal_(-math.inf)
    averages = loss.estimator.log_averages[0]
    assert (averages.exp() / (logits.exp().sum(1) / 23)).log().abs().mean() < 0.2
    by_average, by_batch = (((each / each.norm()) - whole / whole.norm()).norm() for each in sums)
    assert by_average < by_batch / 2


@pytest.mark.parametrize("stored", [-math.inf, -150.0, 0.0, 150.0])
def test_float32_logits_of_100_give_finite_losses_and_gradients(stored):
    for sign, decoupled in itertools.product((-1, 1), (False, True)):
        similarity = (sign * (2 * torch.eye(4) - 1)).requires_grad_()
        loss = CrossModalLoss(GlobalMass(4, 0.5), decoupled=decoupled)
        loss.estimator.log_averages.fill_(stored)
        value = loss(similarity, 100.0, index=torch.arange(4))
        value.backward()
        assert value.isfinite()
        assert value.dtype == torch.float32
        assert similarity.grad.isfinite().all()
        assert loss.estimator.log_averages.isfinite().all()


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
    loss = CrossModalLoss(GlobalMass(6, gamma), decoupled=True).double()
    for update in range(3):
        samples = torch.tensor([(update + row) % 6 for row in range(5)])
        text, image = (
            torch.nn.functional.normalize(
                waves(shift + 0.2 * update, step).double(), dim=-1
            ).requires_grad_()
            for shift, step in ((1.1, 0.3), (1.6, 0.35))
        )
        terms = loss.of_features(text, image, scale, index=samples)
    lengths = [2 * gradient.norm().item() for gradient in book.gradients(terms.loss, [text, image])]
    assert lengths == pytest.approx([of_texts, of_images], rel=1e-9)


def pairs(estimator, **facts):
    return CrossModalLoss(estimator)(torch.eye(3), 5.0, **facts)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GlobalMass(4, 0.0), r"rate is 0\.0"),
        (lambda: GlobalMass(4, 1.1), r"rate is 1\.1"),
        (lambda: GlobalMass(4, math.nan), "rate is nan"),
        (lambda: GlobalMass(0), "samples is 0; expected a positive number of training samples"),
        (lambda: GlobalMass(2.5), "samples is 2.5; expected a positive number"),
        (lambda: GlobalMass(None), "samples is None; expected a positive number"),
        (lambda: build({"name": "global"}), "global needs samples"),
        (
            lambda: GlobalMass(4)(torch.zeros(3), torch.zeros(3, 4)),
            "log_average is missing; the estimator needs it",
        ),
        (
            lambda: GlobalMass(4, filtered=True)(
                torch.zeros(3), torch.zeros(3, 4), log_average=torch.zeros(3)
            ),
            "similarity is missing",
        ),
        (
            lambda: GlobalMass(4)(torch.zeros(3), torch.zeros(3, 4), log_average=torch.zeros(4)),
            r"log_average has shape \(4,\); expected \(3,\)",
        ),
        (lambda: pairs(GlobalMass(4)), "index is missing; GlobalMass"),
        (
            lambda: pairs(GlobalMass(4), index=torch.arange(2)),
            r"index has shape \(2,\); expected \(3,\)",
        ),
        (
            lambda: pairs(GlobalMass(4), index=torch.tensor([0, 4, 1])),
            "index contains numbers from 0 to 4; expected those of 4 samples",
        ),
        (
            lambda: pairs(GlobalMass(4), index=torch.tensor([0, 3, -1])),
            "index contains numbers from -1 to 3; expected those of 4 samples",
        ),
        (lambda: pairs(GlobalMass(4), index=[0, 1, 2]), "index is a list; expected a tensor"),
        (
            lambda: pairs(GlobalMass(4, filtered=True), index=torch.arange(3)),
            "negative_similarity is missing",
        ),
        # A guide's similarity of the positive is no average.
        (
            lambda: pairs(GlobalMass(4), index=torch.arange(3), positive_similarity=torch.zeros(3)),
            "positive_similarity is given, but GlobalMass.* does not use it",
        ),
        (
            lambda: RankingLoss(
                torch.nn.Identity(),
                build({"name": "global", "samples": 4}).estimator,
                guide=torch.nn.Identity(),
            ),
            "guide is given",
        ),
        (
            lambda: RankingLoss(torch.nn.Identity(), GlobalMass(4), same_text=False)(COLUMNS),
            "index is missing; GlobalMass",
        ),
    ],
)
def test_invalid_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


COLUMNS = [{"sentence_embedding": uniform(column, 3, 4)} for column in (0, 1)]


def test_a_guides_similarity_does_not_stand_for_an_average():
    loss = RankingLoss(torch.nn.Identity(), GlobalMass(4, filtered=True), same_text=False)
    with pytest.raises(ValueError, match="index is missing; GlobalMass"):
        loss(COLUMNS)


@pytest.mark.parametrize("training", [True, False])
def test_it_compiles_without_a_graph_break(training):
    similarity, index = uniform(0, 4, 4), torch.tensor([3, 0, 5, 1])
    losses = [CrossModalLoss(GlobalMass(6, 0.5)).train(training) for _ in range(2)]
    torch.compiler.reset()  # compiled variants of one method count towards a limit
    compiled = torch.compile(losses[0], fullgraph=True, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(
            compiled(similarity, 3.0, index=index), losses[1](similarity, 3.0, index=index)
        )
        torch.testing.assert_close(*(each.estimator.log_averages for each in losses))
    assert bool(losses[1].estimator.log_averages.isfinite().any()) == training

"""Removal (by a guide, quantile or rank), soft targets, decoupling and hard negatives equal loops
over numbers.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from tests.losses import by_the_book as book
from trueneg.losses import (
    AdjustedInfoNCE,
    Bayesian,
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    Guided,
    HardNegative,
    LearnedThresholds,
    Oracle,
    Quantile,
    Removed,
    Resampled,
    Reweighted,
    Uncorrected,
    build,
)
from trueneg.losses.base import MaskedLogSumExp
from trueneg.losses.layout import Layout
from trueneg.losses.targets import Attracted, HalfUniform

PROPERTIES = settings(deadline=None, max_examples=15)
SEEDS = st.integers(0, 10_000)
COUNTS = st.integers(2, 6)
NAN = torch.full((3, 3), math.nan)


def draws_of(seed):
    return torch.Generator().manual_seed(seed)


def uniform(*shape, seed):
    return 2 * torch.rand(*shape, generator=draws_of(seed), dtype=torch.float64) - 1


def target_rows(*shape, seed):
    rows = torch.rand(*shape, generator=draws_of(seed), dtype=torch.float64)
    return rows / rows.sum(1, keepdim=True)


def anchor_loss(positive, negatives, removed, own_share=1.0, shares=None, decoupled=False):
    """Return an anchor's loss, given the logits of its negatives, which of them are removed, and
    the targets.
    """
    left = [u for u, out in zip(negatives, removed, strict=True) if not out]
    if decoupled and not left:
        return positive * 0
    mass = book.exp_sum(left)
    denominator = mass if decoupled else torch.exp(positive) + mass
    attracted = own_share * positive
    for share, u in zip(shares or [], negatives if shares else [], strict=True):
        attracted = attracted + share * u
    return torch.log(denominator) - attracted


def two_views(z1, z2, temperature, removed, targets=None, decoupled=False):
    """Return the mean over the 2B anchors; ``removed(view, i, negatives)`` returns a flag per
    (view, sample, logit).
    """
    views, count, losses = (z1, z2), len(z1), []
    for view in (0, 1):
        for i in range(count):
            cosine = {
                (w, j): book.cosine(views[view][i], views[w][j]) / temperature
                for w in (0, 1)
                for j in range(count)
            }
            places = [(w, j) for w in (0, 1) for j in range(count) if j != i]
            negatives = [(w, j, cosine[w, j]) for w, j in places]
            shares = None if targets is None else [float(targets[i, j]) / 2 for _, j in places]
            own = 1.0 if targets is None else float(targets[i, i])
            out = removed(view, i, negatives)
            losses.append(
                anchor_loss(
                    cosine[1 - view, i], [u for *_, u in negatives], out, own, shares, decoupled
                )
            )
    return sum(losses) / len(losses)


def texts_and_images(
    similarity, scale, directions, removed, targets=(None, None), decoupled=False, exclude=None
):
    """Return the mean over the anchors of all directions; ``removed(direction, i, negatives)``
    flags each (column, logit).
    """
    count, columns, losses = *similarity.shape, []
    for direction in directions:
        for i in range(count):
            width, own_targets = (
                (columns, targets[0]) if direction == "text" else (count, targets[1])
            )
            value = (
                (lambda j, i=i: similarity[i, j])
                if direction == "text"
                else (lambda j, i=i: similarity[j, i])
            )
            places = [j for j in range(width) if j != i]
            shares = None if own_targets is None else [float(own_targets[i, j]) for j in places]
            own = 1.0 if own_targets is None else float(own_targets[i, i])
            negatives = [(j, scale * value(j)) for j in places]
            no_negative = [
                exclude is not None and bool(exclude[(i, j) if direction == "text" else (j, i)])
                for j in places
            ]
            kept = [each for each, no in zip(negatives, no_negative, strict=True) if not no]
            flags = iter(removed(direction, i, kept))
            out = [no or next(flags) for no in no_negative]
            losses.append(
                anchor_loss(
                    scale * value(i), [u for _, u in negatives], out, own, shares, decoupled
                )
            )
    return sum(losses) / len(losses)


def views_of(seed, count, dimensions=4):
    first = uniform(count, dimensions, seed=seed)
    return first.requires_grad_(), (
        first.detach() + uniform(count, dimensions, seed=seed + 1)
    ).requires_grad_()


def none_removed(view, i, negatives):
    return [False] * len(negatives)


def top_share(view, i, negatives, share):
    logits = sorted((each[-1].item() for each in negatives), reverse=True)
    k = math.ceil(share * len(logits) - 1e-9)
    threshold = logits[k] if k < len(logits) else -math.inf
    return [each[-1].item() > threshold for each in negatives]


@PROPERTIES
@given(SEEDS, COUNTS, st.floats(-0.5, 0.5), st.booleans(), st.sampled_from("bpv"))
def test_guided_removal_of_two_views_equals_a_loop(seed, count, margin, decoupled, form):
    """The guide rates samples (b), samples with a matrix for each view (p), or views (v)."""
    z1, z2 = views_of(seed, count)
    of_positive = uniform(2 * count if form == "v" else count, seed=seed + 2)
    shape = (2 * count, 2 * count) if form == "v" else (count, count)
    guide, other = uniform(*shape, seed=seed + 3), uniform(*shape, seed=seed + 4)

    def removed(view, i, negatives):
        row = view * count + i if form == "v" else i
        limit = of_positive[row] - margin
        similarity = {
            "b": lambda w, j: guide[i, j] if view == 0 else guide[j, i],
            "p": lambda w, j: (guide, other)[view][i, j],
            "v": lambda w, j: guide[row, w * count + j],
        }[form]
        return [bool(similarity(w, j) > limit) for w, j, _ in negatives]

    loss = ContrastiveLoss(Guided(margin), 0.5, decoupled=decoupled)
    similarity = (guide, other) if form == "p" else guide
    actual = loss(z1, z2, negative_similarity=similarity, positive_similarity=of_positive)
    book.assert_same(actual, two_views(z1, z2, 0.5, removed, decoupled=decoupled), [z1, z2])


@PROPERTIES
@given(SEEDS, COUNTS, st.floats(0, 0.99), st.booleans())
def test_removal_by_quantile_of_two_views_equals_a_loop(seed, count, share, decoupled):
    z1, z2 = views_of(seed, count)
    actual = ContrastiveLoss(Quantile(share), 0.5, decoupled=decoupled)(z1, z2)
    expected = two_views(
        z1, z2, 0.5, lambda *anchor: top_share(*anchor, share), decoupled=decoupled
    )
    book.assert_same(actual, expected, [z1, z2])


@PROPERTIES
@given(SEEDS, st.integers(3, 6), st.integers(1, 7), st.floats(-0.5, 0.5))
def test_top_k_removal_removes_both_views_of_the_most_similar_samples(
    seed, count, top_k, threshold
):
    z1, z2 = views_of(seed, count)
    guide = uniform(2 * count, 2 * count, seed=seed + 3)

    def removed(view, i, negatives):
        row = guide[view * count + i]
        nearest = {j: max(float(row[j]), float(row[count + j])) for j in range(count) if j != i}
        chosen = sorted(nearest, key=nearest.get, reverse=True)[:top_k]
        return [j in chosen and nearest[j] > threshold for _, j, _ in negatives]

    actual = ContrastiveLoss(Removed(threshold, top_k), 0.5)(z1, z2, negative_similarity=guide)
    book.assert_same(actual, two_views(z1, z2, 0.5, removed), [z1, z2])


@PROPERTIES
@given(SEEDS, COUNTS, st.booleans(), st.sampled_from([Uncorrected(), Quantile(0.3)]))
def test_soft_targets_of_two_views_equal_a_loop(seed, count, decoupled, estimator):
    z1, z2 = views_of(seed, count)
    targets = target_rows(count, count, seed=seed).requires_grad_()
    removed = (
        none_removed
        if isinstance(estimator, Uncorrected)
        else lambda *anchor: top_share(*anchor, 0.3)
    )
    actual = ContrastiveLoss(estimator, 0.5, decoupled=decoupled)(z1, z2, targets=targets)
    book.assert_same(actual, two_views(z1, z2, 0.5, removed, targets.detach(), decoupled), [z1, z2])
    assert torch.autograd.grad(actual, targets, allow_unused=True) == (None,)


def test_one_hot_targets_equal_no_targets():
    z1, z2 = views_of(1, 5)
    for decoupled in (False, True):
        loss = ContrastiveLoss(Uncorrected(), 0.2, decoupled=decoupled)
        torch.testing.assert_close(
            loss(z1, z2, targets=torch.eye(5, dtype=torch.float64)),
            loss(z1, z2),
            rtol=1e-12,
            atol=0,
        )


@PROPERTIES
@given(
    SEEDS,
    COUNTS,
    st.integers(0, 3),
    st.sampled_from(["text", "image", "both"]),
    st.booleans(),
    st.data(),
)
def test_pairs_with_hard_negatives_and_excluded_columns_equal_a_loop(
    seed, count, hard, directions, decoupled, data
):
    sides = ["text", "image"] if directions == "both" else [directions]
    similarity = uniform(count, count + hard, seed=seed).requires_grad_()
    scale = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    exclude = torch.rand(count, count + hard, generator=draws_of(seed)) < 0.3
    guide, own = uniform(count, count + hard, seed=seed + 1), uniform(count, seed=seed + 2)
    soft = {
        "text": target_rows(count, count + hard, seed=seed),
        "image": target_rows(count, count, seed=seed + 9),
    }
    with_targets = data.draw(st.booleans())
    targets = tuple(soft[side] for side in sides) if with_targets else None
    chosen = data.draw(st.sampled_from([Guided(0.1), Quantile(0.4), Removed(0.0)]))

    def removed(direction, i, negatives):
        alike = [float(guide[i, j] if direction == "text" else guide[j, i]) for j, _ in negatives]
        match chosen:
            case Guided():
                return [s > float(own[i]) - 0.1 for s in alike]
            case Removed():
                return [s > 0.0 for s in alike]
            case Quantile():
                return top_share(None, i, negatives, 0.4)

    loss = CrossModalLoss(chosen, directions, decoupled=decoupled)
    known = {
        "negative_similarity": guide,
        "positive_similarity": own,
        "exclude": exclude,
        "targets": targets,
    }
    actual = loss(similarity, scale, **known)
    pair = (soft["text"], soft["image"]) if with_targets else (None, None)
    expected = texts_and_images(similarity, scale, sides, removed, pair, decoupled, exclude)
    book.assert_same(actual, expected, [similarity, scale])


def test_features_and_chunks_give_the_same_loss_and_gradient():
    text, image = uniform(4, 6, seed=1).requires_grad_(), uniform(7, 6, seed=2).requires_grad_()
    known = {
        "negative_similarity": (uniform(4, 7, seed=3), uniform(4, 4, seed=4)),
        "positive_similarity": uniform(8, seed=5),
        "exclude": torch.rand(4, 7, generator=draws_of(6)) < 0.3,
        "targets": (target_rows(4, 7, seed=7), target_rows(4, 4, seed=8)),
    }
    for estimator in (Guided(0.1), Quantile(0.4), Removed(0.0, top_k=2)):
        for chunk_size in (None, 1, 3):
            whole = CrossModalLoss(estimator).terms(text @ image.T, 3.0, **known)
            part = CrossModalLoss(estimator, chunk_size=chunk_size).of_features(
                text, image, 3.0, **known
            )
            book.assert_same(part.loss, whole.loss, [text, image], 1e-12)
    z1, z2 = views_of(3, 5)
    views = {
        "negative_similarity": uniform(10, 10, seed=3),
        "positive_similarity": uniform(10, seed=4),
    }
    views["targets"] = target_rows(5, 5, seed=5)
    for estimator in (Guided(0.1), Quantile(0.4), Removed(0.0, top_k=2)):
        whole, part = (
            ContrastiveLoss(estimator, chunk_size=size)(z1, z2, **views) for size in (None, 3)
        )
        torch.testing.assert_close(part, whole, rtol=1e-12, atol=1e-12)
    rule = build({"name": "cl", "targets": {"name": "wcl_one_head"}}).target_rule
    views = {"negative_similarity": uniform(10, 10, seed=2)}
    whole, part = (
        ContrastiveLoss(Uncorrected(), chunk_size=size, target_rule=rule)(z1, z2, **views)
        for size in (None, 4)
    )
    torch.testing.assert_close(part, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "estimator",
    [
        Uncorrected(),
        Debiased(0.1),
        HardNegative(1.0, 0.1),
        Bayesian(0.7, 1.0, 0.1),
        Reweighted(),
        AdjustedInfoNCE(),
        AdjustedInfoNCE(shuffled=True),
        Resampled(3),
        Oracle(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("decoupled", [False, True])
def test_an_anchor_without_negatives_has_loss_0_and_does_not_affect_others(estimator, decoupled):
    similarity = uniform(5, 5, seed=1).requires_grad_()
    exclude = torch.zeros(5, 5, dtype=torch.bool)
    exclude[0] = True
    known = {
        "negative_similarity": torch.zeros(5, 5, dtype=torch.float64),
        "labels": torch.arange(5) % 3,
    }
    torch.manual_seed(0)
    terms = CrossModalLoss(estimator, "text", decoupled=decoupled).terms(
        similarity, 3.0, exclude=exclude, **known
    )
    (gradient,) = torch.autograd.grad(terms.loss, similarity)
    assert terms.log_negative_mass[0] == -math.inf
    assert terms.log_negative_mass[1:].isfinite().all()
    assert gradient.isfinite().all()
    assert gradient[0].abs().max() == 0
    if not isinstance(estimator, Resampled) and estimator != AdjustedInfoNCE(shuffled=True):
        whole = CrossModalLoss(estimator, "text", decoupled=decoupled).terms(
            similarity, 3.0, **known
        )
        torch.testing.assert_close(terms.log_negative_mass[1:], whole.log_negative_mass[1:])


@pytest.mark.parametrize(
    "estimator",
    [Guided(), Removed(0.1), Removed(0.1, top_k=2), Reweighted(), Resampled(3), Uncorrected()],
    ids=repr,
)
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_a_guides_similarity_of_a_sample_with_itself_is_ignored(estimator, chunk_size):
    """NaN is accepted there and refused elsewhere, for two views and for pairs with a hard
    negative.
    """
    z1, z2 = views_of(4, 4)
    own, rule = torch.zeros(4, dtype=torch.float64), Attracted(0.2, top_k=2)
    views, square, wide = (uniform(*shape, seed=5) for shape in ((8, 8), (4, 4), (4, 5)))
    known_of = {"views": views, "samples": square, "pairs": wide}

    def loss_of(form, similarity):
        torch.manual_seed(0)
        options = {"chunk_size": chunk_size, "target_rule": rule}
        if form != "pairs":
            given = {"negative_similarity": similarity, "positive_similarity": own}
            return ContrastiveLoss(estimator, **options)(z1, z2, **given)
        pair = (similarity, similarity[:, :4].clone())
        given = {"negative_similarity": pair, "positive_similarity": own}
        return CrossModalLoss(estimator, **options)(
            torch.cat((z1 @ z2.T, z1[:, :1]), dim=1), 2.0, **given
        )

    for form, similarity in known_of.items():
        with_nan, odd = similarity.clone(), similarity.clone()
        rows = torch.arange(len(similarity))
        with_nan[rows, rows] = math.nan
        if form == "views":
            with_nan[rows, rows.roll(4)] = math.nan  # the other view
        odd[1, 2] = math.nan
        assert torch.equal(loss_of(form, with_nan), loss_of(form, similarity)), form
        with pytest.raises(ValueError, match="negative_similarity contains NaN"):
            loss_of(form, odd)


def test_targets_are_on_the_device_of_the_anchors():
    elsewhere = torch.device("meta")
    assert (
        HalfUniform()(Layout(4, 8, 8, views=2, offset=4, device=elsewhere), None).device
        == elsewhere
    )
    assert (
        Attracted()(Layout(4, 4, 4, device=elsewhere), torch.zeros(4, 4, device=elsewhere)).device
        == elsewhere
    )


def test_targets_from_half_precision_similarities_sum_to_1():
    for dtype in (torch.float16, torch.bfloat16):
        rows = Attracted(0.0)(Layout(64, 64, 64), uniform(64, 64, seed=3).to(dtype))
        torch.testing.assert_close(rows.sum(1), torch.ones(64))


def test_an_anchor_without_remaining_negatives_has_loss_and_gradient_0():
    z1, z2 = views_of(2, 4)
    own = torch.full((4,), -1.0, dtype=torch.float64)
    for decoupled in (False, True):
        loss = ContrastiveLoss(Guided(), 0.5, decoupled=decoupled)
        value = loss(
            z1,
            z2,
            negative_similarity=torch.zeros(4, 4, dtype=torch.float64),
            positive_similarity=own,
        )
        assert value.item() == 0
        for gradient in torch.autograd.grad(value, [z1, z2]):
            assert gradient.abs().max().item() == 0


def test_the_masked_log_sum_exp_has_the_gradient_of_finite_differences_and_no_second_derivative():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    marked = torch.rand(5, 7, generator=generator) < 0.3
    marked[0] = True
    left = logits.masked_fill(marked, -math.inf)[1:].requires_grad_()
    assert torch.autograd.gradcheck(
        lambda given: MaskedLogSumExp.apply(given, marked[1:]),
        left.detach().nan_to_num(neginf=3).requires_grad_(),
    )
    far = (1000 * logits).requires_grad_()  # exp would overflow
    found = MaskedLogSumExp.apply(far, marked)
    torch.testing.assert_close(found[1:], (1000 * left).logsumexp(-1))
    assert found[0] == -math.inf
    found.sum().backward()
    assert (far.grad[marked] == 0).all()
    z1, z2 = views_of(2, 4)
    (gradient,) = torch.autograd.grad(ContrastiveLoss(Quantile(0.2))(z1, z2), z1, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_a_quantile_removes_its_exact_share_and_less_with_ties():
    negatives = torch.arange(30.0, dtype=torch.float64)[None]
    left = Quantile(0.1)(torch.zeros(1), negatives)
    torch.testing.assert_close(left, negatives[:, :27].logsumexp(-1))
    tied = torch.tensor([[1.0, 2.0, 2.0, 3.0]], dtype=torch.float64)
    # the tie at the second stays
    torch.testing.assert_close(Quantile(0.5)(torch.zeros(1), tied), tied[:, :3].logsumexp(-1))


def test_a_quantile_does_not_count_columns_that_are_not_negatives():
    negatives = torch.tensor([[5.0, 4.0, 3.0, 2.0], [5.0, 4.0, 3.0, 2.0]], dtype=torch.float64)
    valid = torch.tensor([[True] * 4, [False, True, True, False]])
    left = Quantile(0.5)(torch.zeros(2), negatives, valid=valid)
    torch.testing.assert_close(left, torch.stack([negatives[0, 2:].logsumexp(0), negatives[0, 2]]))


class TestFalseNegativeCancellation:
    """Targets of the released code: uniform over the positive and the views of similar samples, all
    in the denominator.
    """

    SIMILARITY = torch.tensor(
        [[1.0, 0.9, 0.2, 0.8], [0.9, 1.0, 0.1, 0.3], [0.2, 0.1, 1.0, 0.4], [0.8, 0.3, 0.4, 1.0]]
    )

    def test_the_loss_is_the_mean_over_positives_of_the_log_softmax(self):
        z1, z2 = views_of(4, 4)
        found = {0: [1, 3], 1: [0], 2: [], 3: [0]}
        views, losses = (z1, z2), []
        for view in (0, 1):
            for i in range(4):
                places = [(w, j) for w in (0, 1) for j in range(4) if (w, j) != (view, i)]
                logits = {(w, j): book.cosine(views[view][i], views[w][j]) / 0.5 for w, j in places}
                total = torch.log(book.exp_sum(logits.values()))
                positives = [logits[1 - view, i], *(logits[w, j] for j in found[i] for w in (0, 1))]
                losses.append(-sum(u - total for u in positives) / len(positives))
        actual = build(
            {"name": "cl", "targets": {"name": "fnc", "threshold": 0.7}}, temperature=0.5
        )(z1, z2, negative_similarity=self.SIMILARITY.double())
        book.assert_same(actual, sum(losses) / len(losses), [z1, z2])

    def test_at_most_top_k_samples_attract_and_ties_at_the_last_do_not(self):
        rows = Attracted(0.0, top_k=1)(Layout(4, 4, 4), self.SIMILARITY)
        assert rows.gt(0).sum(1).tolist() == [2, 2, 2, 2]
        assert torch.equal(
            Attracted(0.0, top_k=4)(Layout(4, 4, 4), self.SIMILARITY),
            Attracted(0.0)(Layout(4, 4, 4), self.SIMILARITY),
        )
        tied = self.SIMILARITY.clone()
        tied[0, 3] = 0.9
        assert Attracted(0.0, top_k=1)(Layout(4, 4, 4), tied)[0].tolist() == [1, 0, 0, 0]

    def test_a_sample_is_as_similar_as_its_nearest_view(self):
        views = torch.full((6, 6), -1.0)
        views[4, 2] = 0.9  # the second view of sample 1 and the first of sample 2
        rows = Attracted(0.7)(Layout(3, 3, 3, views=2), views)
        torch.testing.assert_close(rows, torch.tensor([[1, 0, 0], [0, 1 / 3, 2 / 3], [0, 0, 1]]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_guided_removal_compares_whole_numbers_with_a_threshold_that_is_none(dtype):
    similarity = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=dtype)
    z1, z2 = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    losses = [
        ContrastiveLoss(Guided())(
            z1, z2, negative_similarity=values, positive_similarity=torch.full((3,), 0.7)
        )
        for values in (similarity, similarity.float())
    ]
    assert torch.equal(*losses)


def test_half_uniform_targets_are_the_mean_of_one_hot_and_uniform():
    z1, z2 = views_of(5, 4)
    targets = 0.5 * torch.eye(4, dtype=torch.float64) + 0.5 / 4
    actual = build({"name": "cl", "targets": {"name": "half_uniform"}}, temperature=0.5)(z1, z2)
    torch.testing.assert_close(
        actual, two_views(z1, z2, 0.5, none_removed, targets), rtol=1e-6, atol=1e-6
    )
    assert HalfUniform()(Layout(2, 6, 6, views=2, offset=4), None)[1, 5].item() == pytest.approx(
        0.5 + 0.5 / 6
    )


class TestSoftmaxTargets:
    """Targets from a softmax of the guide's similarities equal loops over numbers."""

    @PROPERTIES
    @given(SEEDS, COUNTS, st.floats(0.05, 2), st.floats(0, 1), st.booleans())
    def test_two_views_use_the_similarities_of_different_views(
        self, seed, count, temperature, share, by_view
    ):
        z1, z2 = views_of(seed, count)
        guide = uniform(2 * count, (2 if by_view else 1) * count, seed=seed + 3)
        targets = torch.zeros(count, count, dtype=torch.float64)
        for i in range(count):
            if by_view:
                means = [
                    (float(guide[i, count + j]) + float(guide[count + i, j])) / 2
                    for j in range(count)
                ]
            else:
                means = [
                    (float(guide[i, j]) + float(guide[count + i, j])) / 2 for j in range(count)
                ]
            weights = [math.exp(mean / temperature) for mean in means]
            for j in range(count):
                targets[i, j] = share * weights[j] / sum(weights) + (1 - share) * (i == j)
        loss = build(
            {
                "name": "cl",
                "targets": {"name": "softmax", "temperature": temperature, "share": share},
            },
            temperature=0.5,
        )
        given_as = guide if by_view else (guide[:count], guide[count:])
        book.assert_same(
            loss(z1, z2, negative_similarity=given_as),
            two_views(z1, z2, 0.5, none_removed, targets),
            [z1, z2],
        )

    @PROPERTIES
    @given(SEEDS, COUNTS, st.sampled_from(["text", "image", "both"]))
    def test_each_direction_of_pairs_has_its_targets(self, seed, count, directions):
        similarity, guide = (
            uniform(count, count, seed=seed).requires_grad_(),
            uniform(count, count, seed=seed + 1),
        )
        rows = [[math.exp(float(value) / 0.1) for value in row] for row in guide]
        columns = [list(column) for column in zip(*rows, strict=True)]
        text, image = (
            torch.tensor([[v / sum(row) for v in row] for row in rows_], dtype=torch.float64)
            for rows_ in (rows, columns)
        )
        loss = build({"name": "cl", "targets": {"name": "softmax"}}, directions=directions)
        sides = ["text", "image"] if directions == "both" else [directions]
        expected = texts_and_images(
            similarity, 3.0, sides, lambda way, i, others: [False] * len(others), (text, image)
        )
        book.assert_same(loss(similarity, 3.0, negative_similarity=guide), expected, [similarity])


class TestComponents:
    """Connected components of the nearest-neighbour graph, compared with SciPy."""

    @PROPERTIES
    @given(SEEDS, st.integers(2, 24), st.booleans())
    def test_components_of_one_view_are_the_targets_of_the_other(self, seed, count, by_view):
        z1, z2 = views_of(seed, count)
        units = uniform(2, count, 3, seed=seed + 3)
        embedded = torch.nn.functional.normalize(
            units if by_view else units[[0, 0]], dim=-1
        ).flatten(0, 1)
        guide = embedded @ embedded.T if by_view else embedded[:count] @ embedded[:count].T
        losses = []
        for view in (0, 1):
            own = (
                (embedded @ embedded.T)[(1 - view) * count :, (1 - view) * count :][:count, :count]
                .numpy()
                .copy()
            )
            np.fill_diagonal(own, -np.inf)
            graph = np.zeros((count, count))
            graph[np.arange(count), own.argmax(1)] = 1
            _, member = connected_components(graph, directed=False)
            targets = torch.zeros(count, count, dtype=torch.float64)
            for i in range(count):
                others = [j for j in range(count) if member[j] == member[i] and j != i]
                targets[i, i] = 0.5
                targets[i, others] = 0.5 / len(others)
            # Components of the other view give the targets of this view's anchors, so only their
            # losses are summed.
            losses.append(self.of_view(z1, z2, view, targets))
        loss = build({"name": "cl", "targets": {"name": "wcl_one_head"}}, temperature=0.5)
        book.assert_same(
            loss(z1, z2, negative_similarity=guide), sum(losses) / (2 * count), [z1, z2]
        )

    def of_view(self, z1, z2, view, targets):
        views, count, total = (z1, z2), len(z1), 0
        for i in range(count):
            logits = {
                (w, j): book.cosine(views[view][i], views[w][j]) / 0.5
                for w in (0, 1)
                for j in range(count)
            }
            places = [(w, j) for w in (0, 1) for j in range(count) if j != i]
            shares = [float(targets[i, j]) / 2 for _, j in places]
            negatives = [logits[place] for place in places]
            total = total + anchor_loss(
                logits[1 - view, i], negatives, [False] * len(places), float(targets[i, i]), shares
            )
        return total


class TestLearnedThresholds:
    """Compared with one scalar parameter per sample and PyTorch's Adam."""

    def test_updates_equal_adam_on_scalars(self):
        samples, count = 7, 4
        thresholds = LearnedThresholds(samples, share=0.2, learning_rate=0.05).double()
        numbers = [torch.nn.Parameter(torch.ones((), dtype=torch.float64)) for _ in range(samples)]
        adams = [
            torch.optim.Adam([number], lr=0.05, betas=(0.9, 0.98), eps=1e-8) for number in numbers
        ]
        draws = draws_of(0)
        for step in range(60):
            chosen = torch.randperm(samples, generator=draws)[:count]
            similarity = uniform(2 * count, 2 * count, seed=step)
            learned = thresholds.update(chosen, similarity)
            for place, sample in enumerate(chosen.tolist()):
                above = [
                    similarity[place + view * count, column].item() > numbers[sample].item()
                    for view in (0, 1)
                    for column in range(2 * count)
                    if column % count != place
                ]
                numbers[sample].grad = torch.tensor(
                    0.2 - sum(above) / len(above), dtype=torch.float64
                )
                adams[sample].step()
                numbers[sample].data.clamp_(-1, 1)
                assert learned[place].item() == pytest.approx(numbers[sample].item(), abs=1e-12)
        assert thresholds.values.tolist() == pytest.approx(
            [number.item() for number in numbers], abs=1e-12
        )

    def test_thresholds_approach_the_quantile(self):
        similarity = uniform(1, 1000, seed=3)
        thresholds = LearnedThresholds(1000, share=0.1, learning_rate=0.01)
        for _ in range(400):
            thresholds.update(torch.arange(1000), similarity.expand(1000, -1))
        assert thresholds.values.mean().item() == pytest.approx(
            similarity.quantile(0.9).item(), abs=0.03
        )

    def test_guided_removal_removes_logits_above_the_thresholds(self):
        z1, z2 = views_of(1, 5)
        thresholds = uniform(5, seed=2)
        views = torch.nn.functional.normalize(torch.cat([z1, z2]), dim=-1).detach()
        actual = ContrastiveLoss(Guided(), 0.5)(
            z1, z2, negative_similarity=views @ views.T, positive_similarity=thresholds
        )
        expected = two_views(
            z1,
            z2,
            0.5,
            lambda _, i, others: [u.item() * 0.5 > float(thresholds[i]) for *_, u in others],
        )
        book.assert_same(actual, expected, [z1, z2])


class TestControlsOfTheOracle:
    SAME = torch.tensor([[True] * 4 + [False] * 16]).expand(4000, 20)
    LOGITS = torch.zeros(4000, 20, dtype=torch.float64)

    def removed(self, **settings):
        torch.manual_seed(0)
        return Oracle(**settings).mass(self.LOGITS[:, 0], self.LOGITS, same_class=self.SAME).removed

    def test_rescaled_keeps_the_scale_of_all_negatives(self):
        mass = Oracle(rescaled=True)(self.LOGITS[:, 0], self.LOGITS, same_class=self.SAME)
        torch.testing.assert_close(mass, torch.full((4000,), math.log(20), dtype=torch.float64))

    def test_recall_is_the_probability_that_a_false_negative_is_removed(self):
        found = self.removed(recall=0.7)
        assert not found[:, 4:].any()
        # 16,000 draws: 4 standard errors
        assert found[:, :4].double().mean().item() == pytest.approx(0.7, abs=0.015)

    def test_precision_is_the_share_of_false_negatives_among_the_removed(self):
        found = self.removed(precision=0.5, recall=0.8)
        assert found[:, :4].sum().item() / found.sum().item() == pytest.approx(0.5, abs=0.015)
        assert found[:, :4].double().mean().item() == pytest.approx(0.8, abs=0.015)

    def test_shuffled_removes_the_same_number_at_random(self):
        found = self.removed(shuffled=True)
        assert found.sum(1).tolist() == [4] * 4000
        assert found[:, :4].double().mean().item() == pytest.approx(0.2, abs=0.015)

    def test_columns_that_are_not_negatives_are_never_removed(self):
        torch.manual_seed(0)
        logits = self.LOGITS.clone()
        logits[:, ::3] = -math.inf
        mass = Oracle(shuffled=True, precision=0.5).mass(logits[:, 0], logits, same_class=self.SAME)
        assert not (mass.removed & logits.isneginf()).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build_targets("softmax", temperature=0), "targets.temperature is 0"),
        (lambda: build_targets("softmax", temperature=math.nan), "targets.temperature is nan"),
        (lambda: build_targets("softmax", share=1.1), r"targets.share is 1\.1"),
        (lambda: build_targets("softmax", share=-0.1), r"targets.share is -0\.1"),
        (
            lambda: build_targets("softmax")(torch.eye(3), torch.eye(3)),
            "negative_similarity is missing; the targets softmax",
        ),
        (
            lambda: build_targets("wcl_one_head")(torch.eye(3), torch.eye(3)),
            "is missing; the targets wcl_one_head",
        ),
        (
            lambda: build_targets("wcl_one_head", directions="text")(
                torch.eye(3), 1.0, negative_similarity=torch.eye(3)
            ),
            "1 views",
        ),
        (lambda: LearnedThresholds(0), "samples is 0"),
        (lambda: LearnedThresholds(3, share=1), "share 1"),
        (lambda: LearnedThresholds(3, share=-0.1), r"share -0\.1"),
        (lambda: LearnedThresholds(3, learning_rate=0), "learning_rate 0"),
        (lambda: Guided(math.nan), "margin is nan"),
        (lambda: Quantile(1.0), r"share is 1\.0"),
        (lambda: Removed(top_k=0), "top_k is 0"),
        (lambda: Oracle(precision=0), "precision is 0"),
        (lambda: Oracle(recall=1.5), r"recall is 1\.5"),
        (lambda: Attracted(math.inf), "threshold is inf"),
        (lambda: Attracted(top_k=0), "top_k is 0"),
        (lambda: Attracted()(Layout(4, 4, 4), None), "negative_similarity is missing"),
        (
            lambda: two(Guided(), negative_similarity=torch.zeros(3, 3)),
            "Guided needs positive_similarity",
        ),
        (
            lambda: two(Guided(), positive_similarity=torch.zeros(3)),
            "negative_similarity is missing",
        ),
        (
            lambda: two(
                Guided(), negative_similarity=torch.zeros(3, 3), positive_similarity=torch.zeros(2)
            ),
            r"\(2,\).*\(6,\)",
        ),
        (lambda: two(Removed(), negative_similarity=torch.zeros(3, 4)), r"\(3, 4\).*\(3, 3\)"),
        (
            lambda: two(Removed(), negative_similarity=torch.full((3, 3), math.nan)),
            "negative_similarity contains NaN",
        ),
        (lambda: two(Uncorrected(), targets=torch.full((3, 3), 0.5)), r"row 0 sums to 1\.5"),
        (lambda: two(Uncorrected(), targets=torch.full((3, 3), math.nan)), "row 0 sums to nan"),
        (
            lambda: two(Uncorrected(), targets=torch.eye(4)),
            r"targets has shape \(4, 4\); expected \(3, 3\)",
        ),
        (lambda: pairs(torch.zeros(4, 3)), r"\(4, 3\); expected \(B, B\) or \(B, B \+ H\)"),
        (
            lambda: pairs(torch.zeros(3, 3), targets=torch.eye(3)),
            "targets has 1 tensors; expected one per direction",
        ),
        (
            lambda: two(Removed(), negative_similarity=(torch.zeros(3, 3),) * 3),
            "negative_similarity has 3 parts",
        ),
        (
            lambda: two(
                build({"name": "cl", "targets": {"name": "fnc"}}).estimator, negative_similarity=NAN
            ),
            "contains NaN",
        ),
        (
            lambda: pairs(torch.zeros(4, 4), positive_similarity=torch.zeros(3)),
            r"positive_similarity has shape \(3,\).*\(8,\)",
        ),
        (
            lambda: pairs(torch.zeros(4, 4), positive_similarity=torch.zeros(())),
            r"positive_similarity has shape \(\)",
        ),
        (
            lambda: CrossModalLoss(Removed(), "image")(
                torch.eye(4), 1.0, negative_similarity=torch.zeros(4)
            ),
            r"\(4,\).*\(4, 4\)",
        ),
        (
            lambda: pairs(torch.zeros(4, 4), exclude=torch.zeros(4, 4)),
            "exclude is torch.float32; expected bool",
        ),
        (
            lambda: pairs(torch.zeros(4, 4), negative_similarity=(torch.zeros(4, 4),)),
            "negative_similarity has 1 parts",
        ),
        (
            lambda: two(Removed(), negative_similarity=np.zeros((3, 3))),
            "negative_similarity is a ndarray; expected a tensor",
        ),
        (
            lambda: ContrastiveLoss(Uncorrected())(np.eye(3), np.eye(3)),
            "z1 is a ndarray; expected a tensor",
        ),
        (lambda: build({"name": "cl", "targets": "fnc"}), "targets is 'fnc'; expected a mapping"),
        (
            lambda: build({"name": "cl", "decoupled": "false"}),
            "decoupled is 'false'; expected True or False",
        ),
        (
            lambda: pairs(torch.zeros(3, 5), exclude=torch.zeros(3, 3)),
            r"exclude has shape \(3, 3\); expected \(3, 5\)",
        ),
        (
            lambda: build({"name": "cl", "targets": {"name": "soft"}}),
            "targets.name is 'soft'.*onehot, half_uniform, fnc",
        ),
        (
            lambda: build({"name": "cl", "targets": {"name": "fnc", "k": 3}}),
            "targets fnc has no parameter k.*threshold, top_k",
        ),
    ],
)
def test_invalid_input_is_refused(call, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()


def build_targets(name, directions=None, **settings):
    return build({"name": "cl", "targets": {"name": name, **settings}}, directions=directions)


def two(estimator, **known):
    return ContrastiveLoss(estimator)(torch.eye(3), torch.eye(3), **known)


def pairs(similarity, estimator=Uncorrected(), **known):  # noqa: B008 (estimators have no state)
    return CrossModalLoss(estimator)(similarity, 1.0, **known)


@pytest.mark.parametrize(("temperature", "official"), [(0.5, 1.4567971), (0.1, 1.1259580)])
def test_attraction_equals_the_released_code(temperature, official):
    """``add_contrastive_loss`` of google-research/fnc (adf5da5, Apache 2.0), divided by 2: it sums
    over the two views.

    No support views, ``fn_topk=4``, ``fn_threshold=0.5``. The released code picks columns, which
    are views; here both views of each sample that it picks are among them.
    """
    rows = torch.tensor(
        [[math.sin(1.7 * (1 + 7 * row + c * c) + 0.3) for c in range(4)] for row in range(12)]
    )
    embeddings = 0.3 * rows.double()
    embeddings[torch.arange(12), torch.arange(12) % 6 % 3] += 2  # three classes of two samples
    units = torch.nn.functional.normalize(embeddings, dim=-1)
    loss = build(
        {"name": "cl", "targets": {"name": "fnc", "threshold": 0.5, "top_k": 4}},
        temperature=temperature,
    )
    found = loss(embeddings[:6], embeddings[6:], negative_similarity=units @ units.T)
    assert found.item() == pytest.approx(official, rel=1e-6)


def waves(shift, step, rows=5, columns=4):
    return torch.tensor(
        [
            [math.sin(shift * (1 + r) + step * (1 + c) * (1 + r)) for c in range(columns)]
            for r in range(rows)
        ]
    )


@pytest.mark.parametrize(
    ("margin", "hard", "official"),
    [(0.0, False, 0.809504321), (0.2, True, 1.341205728), (-0.1, True, 2.287821494)],
)
def test_guided_removal_equals_sentence_transformers(margin, hard, official):
    """``GISTEmbedLoss`` of sentence-transformers 5.7.0 (Apache 2.0), t = 0.5, neither anchors nor
    positives contrasted.
    """
    own = {"anchor": waves(1.1, 0.3), "positive": waves(1.6, 0.35), "negative": waves(0.7, 0.9)}
    guide = {"anchor": waves(0.9, 0.2), "positive": waves(1.3, 0.25), "negative": waves(2.0, 0.5)}
    units = [
        {key: torch.nn.functional.normalize(each.double(), dim=-1) for key, each in one.items()}
        for one in (own, guide)
    ]
    columns = ["positive", "negative"] if hard else ["positive"]
    (text, candidates), (anchors, rated) = (
        (one["anchor"], torch.cat([one[key] for key in columns])) for one in units
    )
    similarity = anchors @ rated.T
    known = {"negative_similarity": similarity, "positive_similarity": similarity.diagonal()}
    found = CrossModalLoss(Guided(margin), "text").of_features(text, candidates, 2.0, **known)
    assert found.loss.item() == pytest.approx(official, rel=2e-6)

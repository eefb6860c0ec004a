"""Hard negatives, excluded columns, chunks and anchors without negatives, with any estimator."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from tests.losses.loops import (
    COUNTS,
    PROPERTIES,
    SEEDS,
    draws_of,
    target_rows,
    texts_and_images,
    top_share,
    uniform,
    views_of,
)
from trueneg.losses import (
    AdjustedInfoNCE,
    Bayesian,
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    Guided,
    HardNegative,
    Oracle,
    Quantile,
    Removed,
    Resampled,
    Reweighted,
    Uncorrected,
    build,
)
from trueneg.losses.targets import Attracted


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
        "unused": "ignore",
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
        "unused": "ignore",
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
        "unused": "ignore",
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
        "unused": "ignore",
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
            given["unused"] = "ignore"
            return ContrastiveLoss(estimator, **options)(z1, z2, **given)
        pair = (similarity, similarity[:, :4].clone())
        given = {"negative_similarity": pair, "positive_similarity": own, "unused": "ignore"}
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

"""Removal (by a guide, quantile, rank or label) equals loops over numbers."""

import math
from functools import partial
from typing import ClassVar

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
    top_share,
    two_views,
    uniform,
    views_of,
    waves,
)
from trueneg.losses import (
    Anchors,
    ContrastiveLoss,
    CrossModalLoss,
    Guided,
    LearnedThresholds,
    Oracle,
    Quantile,
    Removed,
    Reweighted,
)
from trueneg.losses.log_space import MaskedLogSumExp


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


def test_no_gradient_reaches_the_similarity_that_weights_the_negatives():
    negatives = torch.randn(2, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    similarity = torch.full((2, 4), 0.5, requires_grad=True)
    Reweighted(2.0)(torch.zeros(2), negatives, similarity=similarity).sum().backward()
    assert negatives.grad.abs().sum() > 0
    assert similarity.grad is None


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
        return (
            Oracle(**settings)
            .mass(Anchors(self.LOGITS[:, 0], self.LOGITS, same_class=self.SAME))
            .removed
        )

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

    def test_nearest_removes_as_many_of_the_most_similar_true_negatives(self):
        generator = torch.Generator().manual_seed(1)
        logits = torch.randn(50, 20, generator=generator, dtype=torch.float64)
        logits[:, ::7] = -math.inf
        same = torch.rand(50, 20, generator=generator) < 0.3
        anchors = Anchors(logits[:, 0], logits, same_class=same)
        removed = Oracle(nearest=True).mass(anchors).removed
        log_mass = Oracle(nearest=True)(logits[:, 0], logits, same_class=same)
        assert same.sum(1).unique().numel() > 3
        for row in range(50):
            negatives = [n for n in range(20) if logits[row, n] > -math.inf]
            true = sorted(
                (n for n in negatives if not same[row, n]), key=lambda n: -logits[row, n].item()
            )
            left_out = set(true[: sum(bool(same[row, n]) for n in negatives)])
            assert {n for n in negatives if removed[row, n]} == left_out
            mass = sum(math.exp(logits[row, n]) for n in negatives if n not in left_out)
            assert log_mass[row].item() == pytest.approx(math.log(mass))
        with pytest.raises(ValueError, match="shuffled and nearest"):
            Oracle(shuffled=True, nearest=True)

    def test_columns_that_are_not_negatives_are_never_removed(self):
        torch.manual_seed(0)
        logits = self.LOGITS.clone()
        logits[:, ::3] = -math.inf
        mass = Oracle(shuffled=True, precision=0.5).mass(
            Anchors(logits[:, 0], logits, same_class=self.SAME)
        )
        assert not (mass.removed & logits.isneginf()).any()


class TestPlacebosOfMasks:
    """They leave out as many negatives as the mask would, but others."""

    GENERATOR = torch.Generator().manual_seed(2)
    LOGITS = torch.randn(400, 20, generator=GENERATOR, dtype=torch.float64)
    LOGITS[:, ::7] = -math.inf  # no negatives
    FACTS: ClassVar = {
        "similarity": torch.randn(400, 20, generator=GENERATOR, dtype=torch.float64),
        "threshold": torch.randn(400, generator=GENERATOR, dtype=torch.float64) + 0.5,
        "same_class": torch.rand(400, 20, generator=GENERATOR) < 0.1,
    }
    MASKS = pytest.mark.parametrize("mask", [Guided, partial(Quantile, 0.3), Removed])

    def removed(self, estimator):
        anchors = Anchors(self.LOGITS[:, 0], self.LOGITS, **self.FACTS)
        return estimator.mass(anchors).removed & ~self.LOGITS.isneginf()

    @MASKS
    def test_random_ones(self, mask):
        torch.manual_seed(0)
        count = self.removed(mask()).sum(1)
        found = self.removed(mask(shuffled=True))
        assert found.sum(1).tolist() == count.tolist()
        assert count.unique().numel() > 1 or isinstance(mask(), Quantile)
        chance = (count / (~self.LOGITS.isneginf()).sum(1)).mean().item()
        column = found[:, 1].double().mean().item()
        assert column == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / 400))

    @MASKS
    def test_the_nearest_true_ones(self, mask):
        assert not mask().needs_labels
        assert mask(nearest=True).needs_labels
        count = self.removed(mask()).sum(1).tolist()
        found = self.removed(mask(nearest=True))
        for row, logits in enumerate(self.LOGITS.tolist()):
            same = self.FACTS["same_class"][row].tolist()
            true = [n for n in range(20) if logits[n] > -math.inf and not same[n]]
            nearest = sorted(true, key=lambda n: -logits[n])[: count[row]]
            assert set(found[row].nonzero().flatten().tolist()) == set(nearest)


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


def test_a_negative_as_similar_as_the_threshold_is_kept():
    similarity = torch.tensor([[0.5, 0.75, 0.25]])
    mass = Removed(0.5)(torch.zeros(1), torch.zeros(1, 3), similarity=similarity)
    assert mass.exp().item() == pytest.approx(2)

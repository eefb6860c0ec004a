"""Soft targets equal loops over numbers, and attraction equals the released code."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from tests.losses import by_the_book as book
from tests.losses.loops import (
    COUNTS,
    PROPERTIES,
    SEEDS,
    anchor_loss,
    none_removed,
    target_rows,
    texts_and_images,
    top_share,
    two_views,
    uniform,
    views_of,
)
from trueneg.losses import (
    ContrastiveLoss,
    Quantile,
    Uncorrected,
    build,
)
from trueneg.losses.layout import Layout
from trueneg.losses.targets import Attracted, HalfUniform, Softmax


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


def test_targets_are_on_the_device_of_the_anchors():
    elsewhere = torch.device("meta")
    assert (
        HalfUniform()(Layout(4, 8, views=2, offset=4, device=elsewhere), None).device == elsewhere
    )
    assert (
        Attracted()(Layout(4, 4, device=elsewhere), torch.zeros(4, 4, device=elsewhere)).device
        == elsewhere
    )


def test_targets_from_half_precision_similarities_sum_to_1():
    for dtype in (torch.float16, torch.bfloat16):
        rows = Attracted(0.0)(Layout(64, 64), uniform(64, 64, seed=3).to(dtype))
        torch.testing.assert_close(rows.sum(1), torch.ones(64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_targets_in_half_precision_are_normalised(dtype):
    targets = torch.softmax(10 * uniform(64, 64, seed=4), dim=1).to(dtype)
    exact = targets.double() / targets.double().sum(1, keepdim=True)
    views, loss = views_of(2, 64), ContrastiveLoss(Uncorrected(), 0.2)
    torch.testing.assert_close(
        loss(*views, targets=targets), loss(*views, targets=exact), rtol=2e-8, atol=0
    )
    with pytest.raises(ValueError, match="row 0 sums to"):
        loss(*views, targets=0.98 * targets)


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
        rows = Attracted(0.0, top_k=1)(Layout(4, 4), self.SIMILARITY)
        assert rows.gt(0).sum(1).tolist() == [2, 2, 2, 2]
        assert torch.equal(
            Attracted(0.0, top_k=4)(Layout(4, 4), self.SIMILARITY),
            Attracted(0.0)(Layout(4, 4), self.SIMILARITY),
        )
        tied = self.SIMILARITY.clone()
        tied[0, 3] = 0.9
        assert Attracted(0.0, top_k=1)(Layout(4, 4), tied)[0].tolist() == [1, 0, 0, 0]

    def test_a_sample_is_as_similar_as_its_nearest_view(self):
        views = torch.full((6, 6), -1.0)
        views[4, 2] = 0.9  # the second view of sample 1 and the first of sample 2
        rows = Attracted(0.7)(Layout(3, 3, views=2), views)
        torch.testing.assert_close(rows, torch.tensor([[1, 0, 0], [0, 1 / 3, 2 / 3], [0, 0, 1]]))


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


def test_half_uniform_targets_are_the_mean_of_one_hot_and_uniform():
    z1, z2 = views_of(5, 4)
    targets = 0.5 * torch.eye(4, dtype=torch.float64) + 0.5 / 4
    actual = build({"name": "cl", "targets": {"name": "half_uniform"}}, temperature=0.5)(z1, z2)
    torch.testing.assert_close(
        actual, two_views(z1, z2, 0.5, none_removed, targets), rtol=1e-6, atol=1e-6
    )
    assert HalfUniform()(Layout(2, 6, views=2, offset=4), None)[1, 5].item() == pytest.approx(
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

    def test_a_batch_of_one_has_a_loss_of_zero(self):
        loss = build({"name": "cl", "targets": {"name": "wcl_one_head"}}, temperature=0.5)
        z1, z2 = views_of(0, 1)
        assert loss(z1, z2, negative_similarity=torch.ones(2, 2)).item() == 0

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


@pytest.mark.parametrize("rule", [Softmax(0.5), Attracted(0.3)])
def test_no_gradient_reaches_the_similarity_of_the_targets(rule):
    views = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    similarity = torch.rand(8, 8, generator=torch.Generator().manual_seed(1), requires_grad=True)
    loss = ContrastiveLoss(Uncorrected(), target_rule=rule)(*views, negative_similarity=similarity)
    loss.backward()
    assert views.grad.abs().sum() > 0
    assert similarity.grad is None

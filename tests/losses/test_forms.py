"""The forms in which the losses take samples, values and gradients, against loops over anchors:
several views, hard negatives, a queue, right answers to the same query, values per anchor.
"""

import math

import pytest
import torch
from torch.nn.functional import normalize

from tests.losses import by_the_book as book
from tests.losses.forms import is_own_hard, logits_of, normal, of_pairs, of_views, plain
from trueneg.losses import (
    AdjustedInfoNCE,
    Bayesian,
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    Guided,
    HardNegative,
    HardnessWeighted,
    OpenClipLoss,
    Oracle,
    Quantile,
    Reweighted,
    Sigmoid,
    SupConLoss,
    Uncorrected,
)

T = 0.4
CHUNKS = [None, 2]
BY_RANK = {"alpha": 0.8, "beta": 1.0, "form": "paper"}
# an estimator, and the same from the logits of positives and negatives
ESTIMATORS = {
    "cl": (Uncorrected(), lambda p, u, t: book.exp_sum(u)),
    "dcl": (Debiased(0.1), lambda p, u, t: book.debiased(p, u, 0.1, t)),
    "hcl": (HardNegative(1.0, 0.1), lambda p, u, t: book.hard_negative(p, u, 0.1, t, 1.0)),
    "bcl": (Bayesian(0.8, 1.0, 0.1), lambda p, u, t: book.bayesian(p, u, 0.1, **BY_RANK)),
    "adnce": (AdjustedInfoNCE(0.4, 0.3), lambda p, u, t: book.adjusted(p, u, t, 0.4, 0.3)),
}


def of_logits(mass, temperature=T):
    return lambda i, positives, negatives: mass(positives, logits_of(negatives), temperature)


def three_views(count=3):
    first = normal(count, 4)
    return [first, *((first.detach() + normal(count, 4, seed=s).detach()) for s in (1, 2))]


def leaves(*tensors):
    return [each.detach().requires_grad_() for each in tensors]


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("form", [list, tuple, torch.stack])
def test_three_views_equal_a_loop(name, form, chunk_size):
    """Each positive has a softmax of its own; DCL averages over both."""
    estimator, mass = ESTIMATORS[name]
    views = leaves(*three_views())
    actual = ContrastiveLoss(estimator, T, chunk_size=chunk_size)(form(views))
    book.assert_same(actual, of_views(views, T, of_logits(mass)).mean(), views)


def test_two_views_as_a_list_equal_two_arguments():
    first, second = leaves(*three_views()[:2])
    loss = ContrastiveLoss(Debiased(0.1), T)
    book.assert_same(loss([first, second]), loss(first, second), [first, second], 0)
    book.assert_same(loss(torch.stack([first, second])), loss(first, second), [first, second], 0)


def test_the_mean_of_draws_contains_all_other_views_and_extra_positives():
    views = leaves(*three_views())
    extra = normal(3, 2, 4, seed=5)
    actual = ContrastiveLoss(Debiased(0.2), T)(views, extra_positives=extra)
    seen = []

    def mass(i, positives, negatives):
        seen.append(len(positives))
        return book.debiased(positives, logits_of(negatives), 0.2, T)

    book.assert_same(actual, of_views(views, T, mass, extra=extra).mean(), [*views, extra])
    assert set(seen) == {2 + 2}


@pytest.mark.parametrize("views", [2, 3])
@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_decoupled_several_views_are_the_mean_over_positives(views, chunk_size):
    given = leaves(*three_views()[:views])
    loss = ContrastiveLoss(Uncorrected(), T, decoupled=True, chunk_size=chunk_size)
    masses = []

    def mass(i, positives, negatives):
        masses.append(book.exp_sum(logits_of(negatives)).log() - sum(positives) / len(positives))
        return book.exp_sum(logits_of(negatives))

    of_views(given, T, mass)
    book.assert_same(loss(given), torch.stack(masses).mean(), given)


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_three_views_of_the_sigmoid_loss_equal_a_loop(chunk_size):
    """Each pair is classified once: the other views of a sample are positives."""
    views = leaves(*three_views())
    sigmoid = Sigmoid(bias=-1.0).double()
    actual = ContrastiveLoss(sigmoid, T, chunk_size=chunk_size)(views)
    expected = []

    def mass(i, positives, negatives):
        first, *others = positives
        u = [*others, *logits_of(negatives)]
        flags = [True] * len(others) + [False] * len(negatives)
        expected.append(book.sigmoid(first, u, flags, sigmoid.bias[0]))
        return torch.ones(())

    of_views(views, T, mass)
    book.assert_same(actual, torch.stack(expected).mean(), [*views, sigmoid.bias])


@pytest.mark.parametrize("labels", [[0, 1, 0, -1], [2, 2, 2, 2], [-1, 3, 3, -1]])
def test_facts_of_samples_hold_for_all_three_views(labels):
    views = leaves(*three_views(4))
    loss = ContrastiveLoss(Oracle(), T)
    actual = loss(views, labels=torch.tensor(labels))

    def keeps(v, i, column):
        return not labels[i] == labels[column.sample] >= 0

    book.assert_same(actual, of_views(views, T, plain, keeps=keeps).mean(), views)


def test_a_class_probability_per_sample_holds_for_all_three_views():
    views, eta = leaves(*three_views()), torch.tensor([0.05, 0.2, 0.1], dtype=torch.float64)
    actual = ContrastiveLoss(Debiased(), T)(views, class_probability=eta.requires_grad_())

    def mass(i, positives, negatives):
        return book.debiased(positives, logits_of(negatives), eta[i], T)

    book.assert_same(actual, of_views(views, T, mass).mean(), [*views, eta])


def test_a_similarity_per_view_or_column_holds_for_three_views():
    views = leaves(*three_views())
    known = torch.rand(3, 3, 3, dtype=torch.float64)
    loss = ContrastiveLoss(Reweighted(1.5), T)

    def of(similarity):
        position = iter(range(9))

        def mass(i, positives, negatives):
            row = next(position)
            s = [similarity(row, each) for each in negatives]
            return book.reweighted(positives, logits_of(negatives), s, 1.5)

        return of_views(views, T, mass).mean()

    by_view = loss(views, negative_similarity=tuple(known))
    expected = of(lambda row, each: known[row // 3, row % 3, each.sample])
    book.assert_same(by_view, expected, views)
    wide = torch.rand(9, 9, dtype=torch.float64)
    by_column = loss(views, negative_similarity=wide)
    book.assert_same(by_column, of(lambda row, each: wide[row, each.column]), views)


@pytest.mark.parametrize(
    "wrong",
    [
        [torch.ones(2, 3)],
        torch.ones(1, 2, 3),
        [torch.ones(2, 3), torch.ones(3, 3)],
        [torch.ones(3), torch.ones(3)],
        torch.ones(2, 3),
        [torch.ones(2, 3), "view"],
    ],
)
def test_wrong_views_are_refused(wrong):
    with pytest.raises(ValueError, match=r"view|z1|z2"):
        ContrastiveLoss(Uncorrected())(wrong)


HARD = {"of all": (5, 4), "of each": (3, 2, 4)}


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("owned", HARD)
def test_hard_negatives_and_a_queue_of_views_equal_a_loop(name, owned, chunk_size):
    estimator, mass = ESTIMATORS[name]
    views = leaves(*three_views()[:2])
    hard, queue = normal(*HARD[owned], seed=7), normal(4, 4, seed=8)
    loss = ContrastiveLoss(estimator, T, chunk_size=chunk_size)
    actual = loss(*views, hard_negatives=hard, queue=queue)
    expected = of_views(views, T, of_logits(mass), hard, queue).mean()
    book.assert_same(actual, expected, [*views, hard, queue])


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("owned", HARD)
def test_hard_negatives_of_texts_equal_a_loop(name, owned, chunk_size):
    estimator, mass = ESTIMATORS[name]
    texts, images, hard = normal(3, 4), normal(3, 4, seed=1), normal(*HARD[owned], seed=7)
    scale = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        for each in (texts, images, hard):
            each.copy_(normalize(each, dim=-1))
    loss = CrossModalLoss(estimator, "both", chunk_size=chunk_size, bound_gradient=True)
    actual = loss.of_features(texts, images, scale, hard_negatives=hard).loss

    def scaled(i, positives, negatives):
        return mass(positives, logits_of(negatives), 1 / scale.detach())

    expected = of_pairs(texts, images, scale, scaled, hard=hard).mean()
    book.assert_same(actual, expected, [texts, images, hard, scale])


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("directions", ["text", "image", "both"])
def test_queues_of_texts_and_images_equal_a_loop(directions, chunk_size):
    texts, images, hard = normal(3, 4), normal(3, 4, seed=1), normal(3, 1, 4, seed=3)
    past = normal(5, 4, seed=4), normal(2, 4, seed=5)
    loss = CrossModalLoss(Debiased(0.1), directions, chunk_size=chunk_size)
    further = {"hard_negatives": hard, "unused": "ignore"}
    actual = loss.of_features(texts, images, 0.7, queue=past, **further).loss
    mass = of_logits(ESTIMATORS["dcl"][1], 1 / 0.7)
    expected = of_pairs(texts, images, 0.7, mass, directions, hard, past).mean()
    book.assert_same(actual, expected, [texts, images, hard, *past])
    one = loss.of_features(texts, images, 0.7, queue=past[0], **further).loss
    expected = of_pairs(texts, images, 0.7, mass, directions, hard, (past[0], None)).mean()
    book.assert_same(one, expected, [texts, images, hard, past[0]])


SAME = torch.tensor([[1, 0, 0, 1, 0], [0, 1, 1, 0, 1], [0, 1, 1, 0, 0]]).bool()


@pytest.mark.parametrize(
    ("name", "estimator"), [("same_class", Oracle()), ("exclude", Uncorrected())]
)
def test_a_pair_of_matrices_covers_the_queue_of_texts(name, estimator):
    texts, images = normal(3, 4), normal(3, 4, seed=1)
    queue, of_texts = (normal(2, 4, seed=4), normal(2, 4, seed=5)), SAME.flip(1).roll(2, 1)
    of_texts[:, :3] = SAME[:, :3].T
    loss = CrossModalLoss(estimator)
    known = {"text": SAME, "image": of_texts}
    actual = loss.of_features(texts, images, 0.7, queue=queue, **{name: tuple(known.values())}).loss
    expected = of_pairs(
        *(texts, images, 0.7, plain),
        queue=queue,
        keeps=lambda side, i, column: not known[side][i, column.sample],
    )
    book.assert_same(actual, expected.mean(), [texts, images, *queue])
    with pytest.raises(ValueError, match=f"{name}.*the queue of texts; expected a pair"):
        loss.of_features(texts, images, 0.7, queue=queue, **{name: SAME})


@pytest.mark.parametrize(
    ("name", "estimator"), [("labels", Oracle()), ("same_query", Uncorrected())]
)
def test_numbers_cover_the_queue_of_one_direction(name, estimator):
    texts, images = normal(3, 4), normal(3, 4, seed=1)
    queue, numbers = (normal(2, 4, seed=4), normal(2, 4, seed=5)), torch.tensor([0, 1, 0, 1, -1])
    loss = CrossModalLoss(estimator, "image")
    actual = loss.of_features(texts, images, 0.7, queue=(None, queue[1]), **{name: numbers}).loss
    loss = CrossModalLoss(estimator, "text")
    swapped = loss.of_features(images, texts, 0.7, queue=queue[1], **{name: numbers}).loss
    book.assert_same(actual, swapped, [texts, images, queue[1]])
    with pytest.raises(ValueError, match=f"{name} covers the queue of images"):
        CrossModalLoss(estimator).of_features(texts, images, 0.7, queue=queue, **{name: numbers})


@pytest.mark.parametrize(
    ("directions", "call"),
    [
        ("image", lambda loss, x: loss.of_features(x, x, 1.0, hard_negatives=x)),
        ("image", lambda loss, x: loss.of_features(x, x, 1.0, queue=x)),
        ("image", lambda loss, x: loss.of_features(x, torch.cat((x, x)), 1.0)),
        ("image", lambda loss, x: loss(x @ torch.cat((x, x)).T, 1.0)),
        ("text", lambda loss, x: loss.of_features(x, x, 1.0, queue=(None, x))),
    ],
)
def test_further_negatives_of_a_direction_without_anchors_are_refused(directions, call):
    with pytest.raises(ValueError, match=f'directions is "{directions}"'):
        call(CrossModalLoss(Uncorrected(), directions), normal(3, 4))


def test_hard_negatives_can_be_the_last_images():
    texts, images, hard = normal(3, 4), normal(3, 4, seed=1), normal(2, 4, seed=3)
    loss = CrossModalLoss(Debiased(0.1))
    apart = loss.of_features(texts, images, 0.7, hard_negatives=hard).loss
    together = loss.of_features(texts, torch.cat((images, hard)), 0.7).loss
    book.assert_same(together, apart, [texts, images, hard])
    with pytest.raises(ValueError, match="hard_negatives"):
        loss.of_features(texts, torch.cat((images, hard)), 0.7, hard_negatives=hard)


def test_the_columns_are_the_views_then_hard_negatives_then_the_queue():
    views = three_views()
    hard, queue = normal(3, 2, 4, seed=7), normal(4, 4, seed=8)
    terms = ContrastiveLoss(Uncorrected(), T).terms(views, hard_negatives=hard, queue=queue)
    (logits,) = terms.logits
    assert logits.shape == (9, 9 + 6 + 4)
    keys = [*(row for view in views for row in view), *hard.flatten(0, 1), *queue]
    for a in range(9):
        for k in range(19):
            if k < 9 and k % 3 == a % 3:
                assert logits[a, k] == -math.inf
            else:
                expected = book.cosine(keys[a], keys[k]) / T
                torch.testing.assert_close(logits[a, k], expected)
    assert terms.positive.shape == (9, 2)
    for a in range(9):
        v, i = divmod(a, 3)
        expected = sorted(book.cosine(views[v][i], views[w][i]) / T for w in range(3) if w != v)
        torch.testing.assert_close(terms.positive[a].sort().values, torch.stack(expected))


def test_a_queue_gets_no_gradient_of_its_own_unless_it_requires_one():
    """As keys of a momentum encoder: only the embeddings of the batch are anchors."""
    views, queue = leaves(*three_views()[:2]), normal(4, 4, seed=8).detach()
    loss = ContrastiveLoss(Uncorrected(), T)(*views, queue=queue)
    loss.backward()
    assert queue.grad is None
    assert all(view.grad.abs().sum() > 0 for view in views)


def test_labels_of_hard_negatives_and_the_queue_may_follow_and_are_unknown_otherwise():
    views = leaves(*three_views()[:2])
    hard, queue = normal(2, 4, seed=7), normal(3, 4, seed=8)
    further = {"hard_negatives": hard, "queue": queue}
    loss = ContrastiveLoss(Oracle(), T)
    for labels in (
        [0, 1, 0],
        [0, 1, 0, 1, 0],
        [0, 1, 0, 1, 0, 0, -1, 1],
        [-1, 1, 0, 1, -1] + [-1] * 3,
    ):
        actual = loss(*views, labels=torch.tensor(labels), **further)

        def keeps(v, i, column, labels=labels):
            known = labels + [-1] * (8 - len(labels))
            return not known[i] == known[column.sample] >= 0

        expected = of_views(views, T, plain, hard, queue, keeps).mean()
        book.assert_same(actual, expected, [*views, hard, queue])
    with pytest.raises(ValueError, match=r"labels.*shape"):
        loss(*views, labels=torch.zeros(6), **further)


NEGATIVES = {
    "hard": lambda v, i, column: is_own_hard(i, column),
    "in_batch": lambda v, i, column: not is_own_hard(i, column),
    "all": None,
}


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("owned", HARD)
@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("name", ["cl", "dcl", "bcl"])
def test_which_negatives_count_equals_a_loop(name, negatives, owned, chunk_size):
    estimator, mass = ESTIMATORS[name]
    views = leaves(*three_views()[:2])
    hard, queue = normal(*HARD[owned], seed=7), normal(4, 4, seed=8)
    loss = ContrastiveLoss(estimator, T, chunk_size=chunk_size, negatives=negatives)
    actual = loss(*views, hard_negatives=hard, queue=queue)
    expected = of_views(views, T, of_logits(mass), hard, queue, NEGATIVES[negatives]).mean()
    book.assert_same(actual, expected, [*views, hard, queue])


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_which_negatives_of_texts_count_equals_a_loop(negatives, chunk_size):
    texts, images, hard = normal(3, 4), normal(3, 4, seed=1), normal(3, 2, 4, seed=7)
    loss = CrossModalLoss(Debiased(0.1), "text", chunk_size=chunk_size, negatives=negatives)
    actual = loss.of_features(texts, images, 0.7, hard_negatives=hard).loss
    mass = of_logits(ESTIMATORS["dcl"][1], 1 / 0.7)
    expected = of_pairs(texts, images, 0.7, mass, "text", hard, keeps=NEGATIVES[negatives]).mean()
    book.assert_same(actual, expected, [texts, images, hard])


def test_only_hard_negatives_without_any_are_refused():
    with pytest.raises(ValueError, match="hard"):
        ContrastiveLoss(Uncorrected(), negatives="hard")(*three_views()[:2])
    with pytest.raises(ValueError, match="negatives"):
        ContrastiveLoss(Uncorrected(), negatives="none")


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize(
    "estimator",
    [Uncorrected(), Debiased(0.3), Quantile(0.3), HardnessWeighted(2.0), Sigmoid(-1.0).double()],
    ids=lambda each: each.name,
)
def test_values_per_anchor_are_those_of_a_loop_and_their_mean_is_the_loss(estimator, chunk_size):
    views = leaves(*three_views()[:2])
    options = {"chunk_size": chunk_size}
    each = ContrastiveLoss(estimator, T, reduction="none", **options)(*views)
    mean = ContrastiveLoss(estimator, T, **options)(*views)
    assert each.shape == (6,)
    book.assert_same(each.mean(), mean, views)
    texts, images = views
    pairs = CrossModalLoss(estimator, reduction="none", **options)
    of_features = pairs.of_features(texts, images, 0.7).loss
    of_matrix = pairs(texts @ images.mT, 0.7)
    assert of_features.shape == of_matrix.shape == (6,)
    torch.testing.assert_close(of_features, of_matrix)
    mean = CrossModalLoss(estimator, **options)(texts @ images.mT, 0.7)
    book.assert_same(of_features.mean(), mean, views)
    if estimator.name == "cl":
        torch.testing.assert_close(each, of_views(views, T, plain))
        torch.testing.assert_close(of_features, of_pairs(texts, images, 0.7, plain))
        weights = torch.arange(6.0, dtype=torch.float64)
        expected = (of_views(views, T, plain) * weights).sum()
        weighted = (
            ContrastiveLoss(estimator, T, reduction="none", **options)(*views) * weights
        ).sum()
        book.assert_same(weighted, expected, views)


QUERIES = [3, -1, 3, 0, -1]


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("name", ["cl", "dcl"])
def test_right_answers_to_a_query_are_not_negatives_of_each_other(name, chunk_size):
    """A number below 0 is a query of its own; hard negatives belong to none."""
    estimator, mass = ESTIMATORS[name]
    views, hard = leaves(*three_views(5)[:2]), normal(2, 4, seed=7)
    queries = torch.tensor(QUERIES)
    known = [*QUERIES, -1, -1]

    def keeps(v, i, column):
        return not known[i] == known[column.sample] >= 0

    loss = ContrastiveLoss(estimator, T, chunk_size=chunk_size)
    actual = loss(*views, same_query=queries, hard_negatives=hard)
    expected = of_views(views, T, of_logits(mass), hard, keeps=keeps).mean()
    book.assert_same(actual, expected, [*views, hard])
    pairs = CrossModalLoss(estimator, chunk_size=chunk_size)
    of_features = pairs.of_features(*views, 0.7, same_query=queries, hard_negatives=hard).loss
    scaled = of_logits(mass, 1 / 0.7)
    expected = of_pairs(*views, 0.7, scaled, hard=hard, keeps=keeps).mean()
    book.assert_same(of_features, expected, [*views, hard])


EXCLUDED = {
    "samples": lambda draws: torch.rand(4, 4 + 3, generator=draws) < 0.4,
    "samples of each anchor": lambda draws: torch.rand(8, 4 + 3, generator=draws) < 0.4,
    "columns": lambda draws: torch.rand(8, 8 + 3, generator=draws) < 0.4,
}


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("kind", EXCLUDED)
@pytest.mark.parametrize("with_query", [False, True])
@pytest.mark.parametrize("name", ["cl", "dcl", "bcl"])
def test_excluded_columns_of_views_are_not_negatives(name, kind, with_query, chunk_size):
    estimator, mass = ESTIMATORS[name]
    views = leaves(*three_views(4)[:2])
    hard, queue = normal(1, 4, seed=7), normal(2, 4, seed=8)
    exclude = EXCLUDED[kind](torch.Generator().manual_seed(2))
    queries = [1, 0, 1, -1]
    known = {"same_query": torch.tensor(queries)} if with_query else {}
    loss = ContrastiveLoss(estimator, T, chunk_size=chunk_size)
    actual = loss(*views, exclude=exclude, hard_negatives=hard, queue=queue, **known)

    def keeps(v, i, column):
        row = exclude[i] if len(exclude) == 4 else exclude[v * 4 + i]
        same = with_query and column.sample < 4 and queries[i] == queries[column.sample] >= 0
        return not (row[column.column if len(row) == 11 else column.sample] or same)

    expected = of_views(views, T, of_logits(mass), hard, queue, keeps).mean()
    book.assert_same(actual, expected, [*views, hard, queue])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float16])
@pytest.mark.parametrize("name", ["labels", "same_query"])
def test_missing_numbers_are_unknown_in_every_dtype(name, dtype):
    views, hard = three_views(4)[:2], normal(2, 4, seed=7)
    numbers = torch.tensor([0, 1, 1, 0])
    loss = ContrastiveLoss(Oracle(), T) if name == "labels" else ContrastiveLoss(Uncorrected(), T)
    same = numbers == torch.cat((numbers, torch.tensor([-1, -1]))).unsqueeze(1)
    actual = loss(*views, hard_negatives=hard, **{name: numbers.to(dtype)})
    expected = ContrastiveLoss(Uncorrected(), T)(*views, hard_negatives=hard, exclude=same.mT)
    torch.testing.assert_close(actual, expected)


def test_the_queries_of_hard_negatives_may_be_known():
    views, hard = three_views(4)[:2], normal(2, 4, seed=7)
    queries = torch.tensor([0, 1, 2, 3, 1, 9])  # the first hard negative answers the second query
    exclude = queries == queries[:4, None]
    loss = ContrastiveLoss(Uncorrected(), T)
    actual = loss(*views, same_query=queries, hard_negatives=hard)
    torch.testing.assert_close(actual, loss(*views, exclude=exclude, hard_negatives=hard))
    assert actual != loss(*views, same_query=queries[:4], hard_negatives=hard)
    pairs = CrossModalLoss(Uncorrected())  # images have no hard negatives
    actual = pairs.of_features(*views, 0.7, same_query=queries, hard_negatives=hard).loss
    expected = pairs.of_features(*views, 0.7, exclude=exclude, hard_negatives=hard).loss
    torch.testing.assert_close(actual, expected)


def test_excluded_columns_are_bool():
    with pytest.raises(ValueError, match="exclude"):
        ContrastiveLoss(Uncorrected())(*three_views()[:2], exclude=torch.ones(3, 3))


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_known_classes_of_views_equal_a_loop(chunk_size):
    """The relation need not be symmetric."""
    views, queue = leaves(*three_views(4)[:2]), normal(2, 4, seed=8)
    same = torch.rand(4, 6, generator=torch.Generator().manual_seed(2)) < 0.4
    loss = ContrastiveLoss(Oracle(), T, chunk_size=chunk_size)
    actual = loss(*views, same_class=same, queue=queue)
    expected = of_views(
        views, T, plain, queue=queue, keeps=lambda v, i, column: not same[i, column.sample]
    ).mean()
    book.assert_same(actual, expected, [*views, queue])


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_the_share_of_hard_negatives_that_are_left_out_is_known(chunk_size):
    """Of the anchors' own ones, as a mean over the anchors; similarities are chosen by hand."""
    texts, images, hard = normal(2, 4), normal(2, 4, seed=1), normal(2, 2, 4, seed=7)
    rated = torch.tensor([[0.5, 0.1, 0.9, 0.2, 0.9, 0.9], [0.1, 0.5, 0.9, 0.9, 0.6, 0.7]])
    facts = {"negative_similarity": rated, "positive_similarity": torch.tensor([0.5, 0.5])}
    loss = CrossModalLoss(Guided(), "text", chunk_size=chunk_size)
    loss.finished(loss.of_features(texts, images, 1.0, hard_negatives=hard, **facts), None)
    assert loss.share_of_hard_removed.item() == pytest.approx((1 / 2 + 2 / 2) / 2)
    kept = CrossModalLoss(Guided(scope="in_batch"), "text", chunk_size=chunk_size)
    kept.finished(kept.of_features(texts, images, 1.0, hard_negatives=hard, **facts), None)
    assert kept.share_of_hard_removed.item() == 0
    loss.finished(
        loss.of_features(
            texts, images, 1.0, negative_similarity=rated[:, :2], positive_similarity=rated[:, 0]
        ),
        None,
    )
    assert loss.share_of_hard_removed.isnan()


def test_the_share_of_hard_negatives_does_not_depend_on_chunks():
    """Weights leave out shares of negatives."""
    views, hard = three_views()[:2], normal(3, 2, 4, seed=7)
    known = torch.rand(6, 12, dtype=torch.float64)
    shares = []
    for chunk_size in CHUNKS:
        loss = ContrastiveLoss(Reweighted(), T, chunk_size=chunk_size)
        loss(*views, hard_negatives=hard, negative_similarity=known)
        shares.append(loss.share_of_hard_removed.item())
    assert shares[0] == pytest.approx(shares[1])


def test_openclips_call_takes_further_images():
    images, texts, hard, queue = (
        normalize(normal(*shape, seed=seed), dim=-1).detach().requires_grad_()
        for seed, shape in enumerate([(3, 4), (3, 4), (3, 2, 4), (4, 4)])
    )
    scale = torch.tensor(3.0, dtype=torch.float64)
    actual = OpenClipLoss(Uncorrected())(images, texts, scale, hard_negatives=hard, queue=queue)
    expected = of_pairs(texts, images, 3.0, plain, hard=hard, queue=(queue, None)).mean()
    book.assert_same(actual, expected, [images, texts, hard, queue])


@pytest.mark.parametrize("loss", [ContrastiveLoss(Uncorrected(), T), SupConLoss(T)])
def test_wrong_further_negatives_are_refused(loss):
    views, labels = three_views()[:2], {}
    if isinstance(loss, SupConLoss):
        labels = {"labels": torch.tensor([0, 1, 0])}
    for wrong in (torch.ones(2, 3), torch.ones(2, 2, 4), torch.ones(4), [1.0]):
        with pytest.raises(ValueError, match="hard_negatives"):
            loss(*views, hard_negatives=wrong, **labels)
    for wrong in (torch.ones(2, 3), torch.ones(3, 2, 4), [1.0]):
        with pytest.raises(ValueError, match="queue"):
            loss(*views, queue=wrong, **labels)


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("name", ["cl", "sigmoid"])
def test_columns_can_be_excluded_by_a_pair_of_matrices(name, chunk_size):
    """Of the texts' and of the images' anchors."""
    texts, images = normal(3, 4), normal(3, 4, seed=1)
    exclude = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(2)) < 0.4
    estimator = Uncorrected() if name == "cl" else Sigmoid(-1.0).double()
    loss = CrossModalLoss(estimator, chunk_size=chunk_size)
    actual = loss.of_features(texts, images, 0.7, exclude=tuple(exclude)).loss
    sigmoids = []

    def mass(i, positives, negatives):
        flags = [False] * len(negatives)
        sigmoids.append(book.sigmoid(positives[0], logits_of(negatives), flags, -1.0))
        return book.exp_sum(logits_of(negatives))

    def keeps(side, i, column):
        return not exclude[int(side == "image"), i, column.sample]

    losses = of_pairs(texts, images, 0.7, mass, keeps=keeps)
    assert len(sigmoids) == 6
    expected = losses.mean() if name == "cl" else torch.stack(sigmoids).mean()
    book.assert_same(actual, expected, [texts, images])

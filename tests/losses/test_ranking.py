"""The loss for sentence-transformers' trainer equals loops over numbers, with guides, hard
negatives and equal texts.

tests/losses/test_sentence_transformers.py runs it with the library.
"""

import itertools
import math
import weakref

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from torch import nn

from tests.losses import by_the_book as book
from trueneg.losses import (
    AdjustedInfoNCE,
    Bayesian,
    CrossModalLoss,
    Debiased,
    Guided,
    HardNegative,
    Oracle,
    Quantile,
    Removed,
    Reweighted,
    Uncorrected,
)
from trueneg.losses.adapters import RankingLoss

WORDS = 4
TEXTS = st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=3)


class Bag(nn.Module):
    """Mean of word embeddings; like sentence-transformers' modules, it modifies the features."""

    def __init__(self, seed):
        super().__init__()
        self.words = nn.Parameter(
            torch.randn(
                WORDS, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
            )
        )
        self.seen = []

    def forward(self, features):
        self.seen.append(dict(features))
        mask = features["attention_mask"]
        mean = (self.words[features["input_ids"]] * mask[..., None]).sum(1) / mask.sum(
            1, keepdim=True
        )
        features |= {"sentence_embedding": mean, "input_ids": None, "attention_mask": None}
        return features


class BagWithModes(Bag):
    """Remembers in which mode it is called."""

    def forward(self, features):
        self.modes = [*getattr(self, "modes", []), self.training]
        return super().forward(features)


def tokenised(texts, width=0, left=False):
    """Return the features of a column of texts given as lists of ids; the padding contains ids,
    too.
    """
    width = max(width, *(len(text) for text in texts))
    pads = [[1] * (width - len(text)) for text in texts]
    rows = [(pad, text) if left else (text, pad) for text, pad in zip(texts, pads, strict=True)]
    masks = [
        [[int(part is text)] * len(part) for part in row]
        for row, text in zip(rows, texts, strict=True)
    ]
    ids, mask = (torch.tensor([first + last for first, last in each]) for each in (rows, masks))
    return {"input_ids": ids, "attention_mask": mask}


def loss_of(columns, estimator, **options):
    return RankingLoss(Bag(0), estimator, 3.0, **options)([tokenised(column) for column in columns])


def rows_of_query(columns, i, same_text, group):
    """Return the rows with the query of row i."""
    return [
        k
        for k in range(len(columns[0]))
        if k == i
        or (same_text and columns[0][k] == columns[0][i])
        or (group is not None and group[k] == group[i] >= 0)
    ]


def contrasts_of(columns, i, same_text, contrast, negatives, group):
    """Return the contrasts of row i that have their own loss: each a list of two places, (column,
    row), whose similarity is that of a negative.

    Joint contrasts add the other anchors, and the candidates of other pairs beside the positive.
    The anchors and positives of the rows of a query are no negatives of any of them: those at these
    places or, with ``same_text``, with these texts. In a joint contrast, an anchor is left out with
    its positive. A positive's contrast leaves out the anchors that it answers.
    """
    count = len(columns[0])

    def answers_of(row):
        rows = rows_of_query(columns, row, same_text, group)
        return rows, [columns[column][k] for k in rows for column in (0, 1) if same_text]

    rows, texts = answers_of(i)

    def is_right(column, j):
        same = columns[column][j] in texts
        partner = contrast == "joint" and column == 0 and columns[1][j] in texts
        return (column < 2 and j in rows) or same or partner

    documents = [(column, j) for column in range(1, len(columns)) for j in range(count)]
    others = [(0, j) for j in range(count) if j != i]
    if negatives == "hard":
        documents = [(column, j) for column, j in documents if column > 1 and j == i]
        others = []
    if negatives == "in_batch":
        documents = [(column, j) for column, j in documents if column == 1 or j != i]
    found = [[((0, i), place) for place in documents if place != (1, i)]]
    if contrast == "joint":
        found[0] += [((0, i), place) for place in others]
        if negatives != "hard":
            found[0] += [
                ((1, i), (column, j))
                for column in range(1, len(columns))
                for j in range(count)
                if j != i
            ]
    found = [[(one, other) for one, other in each if not is_right(*other)] for each in found]
    if contrast == "symmetric":
        queries = [(j, *answers_of(j)) for _, j in others]
        found.append(
            [
                ((1, i), (0, j))
                for j, rows, texts in queries
                if i not in rows and columns[1][i] not in texts
            ]
        )
    return found


def by_a_loop(
    model,
    columns,
    rating,
    margin,
    eta,
    *,
    same_text,
    decoupled=False,
    contrast="documents",
    negatives="all",
    labels=None,
    group=None,
):
    """Return the mean over anchors; ``rating`` is the guide, with a margin; η corrects the
    remaining negatives. ``labels`` are the classes of the pairs, ``group`` the numbers of their
    queries.
    """
    embed, rate = (
        [
            [sum(network.words[word] for word in text) / len(text) for text in column]
            for column in columns
        ]
        for network in (model, rating)
    )
    losses = []
    for i in range(len(columns[0])):
        threshold = None if margin is None else book.cosine(rate[0][i], rate[1][i]) - margin
        positive = 3.0 * book.cosine(embed[0][i], embed[1][i])
        for places in contrasts_of(columns, i, same_text, contrast, negatives, group):
            logits = [
                3.0 * book.cosine(embed[one][k], embed[other][j])
                for (one, k), (other, j) in places
                if (threshold is None or book.cosine(rate[one][k], rate[other][j]) <= threshold)
                and not (labels and other < 2 and labels[j] == labels[i])
            ]
            if not logits:
                losses.append(0.0 * positive)
                continue
            eta_of_anchor = eta[i] if isinstance(eta, list) else eta
            if eta is None:
                mass = book.uncorrected([positive], logits)
            else:
                mass = book.debiased([positive], logits, eta_of_anchor, 1 / 3)
            losses.append(
                torch.log(mass) - positive if decoupled else book.anchor_loss(positive, mass)
            )
    return sum(losses) / len(losses)


def of_equal_anchors(columns, group):
    """Return groups in which rows with equal anchors have that of the first of them."""
    return [group[columns[0].index(anchor)] for anchor in columns[0]]


def batches_of(count):
    """Columns, and the numbers of the rows' queries or None."""
    columns = st.lists(st.lists(TEXTS, min_size=count, max_size=count), min_size=2, max_size=4)
    return st.tuples(
        columns, st.none() | st.lists(st.integers(-1, 1), min_size=count, max_size=count)
    )


@settings(max_examples=80)
@given(
    st.integers(2, 5).flatmap(batches_of),
    st.sampled_from([(None, None), (None, 0.1), (0.05, None), (-0.15, None)]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["documents", "joint", "symmetric"]),
    st.sampled_from(["all", "hard", "in_batch"]),
)
@example(  # the query of row 2 is also the positive of row 1
    ([[[0], [0], [0, 0]], [[0], [0, 0], [1]]], None),
    *((None, None), False, True, False, "symmetric", "all"),
)
def test_it_equals_a_loop(batch, correction, with_guide, same_text, decoupled, contrast, negatives):
    columns, group = batch
    margin, eta = correction
    if group is not None:
        group = of_equal_anchors(columns, group)
    if contrast == "symmetric":  # each positive answers one query
        assume(len({tuple(text) for text in columns[1]}) == len(columns[1]))
    if negatives == "hard":
        assume(len(columns) > 2 and contrast != "symmetric")
    model, guide = Bag(0), Bag(1)
    estimator = Uncorrected() if eta is None else Debiased(eta)
    if margin is not None:
        estimator = Guided(margin)
    rating = guide if with_guide and margin is not None else model
    options = {
        "same_text": same_text,
        "decoupled": decoupled,
        "contrast": contrast,
        "negatives": negatives,
    }
    loss = RankingLoss(model, estimator, 3.0, guide=guide if rating is guide else None, **options)
    features = [tokenised(column, width=number) for number, column in enumerate(columns)]
    actual = loss(features, group=None if group is None else torch.tensor(group))
    expected = by_a_loop(model, columns, rating, margin, eta, **options, group=group)
    book.assert_same(actual, expected, [model.words, guide.words])


@pytest.mark.parametrize("contrast", ["documents", "joint", "symmetric"])
@pytest.mark.parametrize("by", ["text", "group"])
def test_all_positives_of_a_query_are_right_answers_in_each_of_its_rows(contrast, by):
    """Rows 0 and 2 have one query. Its positives differ, so pairs of them are no negatives."""
    first = [[0], [1], [0] if by == "text" else [2]]
    columns = [first, [[3], [0, 1], [1, 2]], [[1, 2], [3], [2, 2]]]
    group = torch.tensor([4, -1, 4]) if by == "group" else None
    model = Bag(0)
    options = {"same_text": by == "text", "contrast": contrast}
    loss = RankingLoss(model, Uncorrected(), 3.0, **options)
    features = [tokenised(column) for column in columns]
    actual = loss([dict(each) for each in features], group=group)
    known = {"group": None if group is None else group.tolist()}
    expected = by_a_loop(model, columns, model, None, None, **options, **known)
    book.assert_same(actual, expected, [model.words])
    # the positive of row 0 is also the hard negative of row 1, and that of row 2 of row 0
    if contrast == "documents" and by == "text":
        a, c, hard = ([model.words[text].mean(0) for text in column] for column in columns)
        losses = []
        for i, others in enumerate(([c[1], hard[2]], [c[0], c[2], *hard], [c[1], hard[2]])):
            logits = [3.0 * book.cosine(a[i], other) for other in others]
            losses.append(book.anchor_loss(3.0 * book.cosine(a[i], c[i]), book.exp_sum(logits)))
        book.assert_same(actual, sum(losses) / 3, [model.words])
    alone = RankingLoss(model, Uncorrected(), 3.0, **options | {"same_text": False})
    assert alone([dict(each) for each in features]) > actual


def test_rows_without_a_group_are_queries_of_their_own():
    features = [tokenised(column) for column in ([[0], [1], [2]], [[3], [0, 1], [1, 2]])]
    loss = RankingLoss(Bag(0), Uncorrected(), 3.0)

    def with_groups(group):
        return loss([dict(each) for each in features], group=group)

    without = with_groups(None)
    assert torch.equal(with_groups(torch.tensor([-1, -1, -1])), without)
    assert with_groups(torch.tensor([-1, 4, 4])) < without


# anchors, positives, hard negatives
COLUMNS = [[[0, 1], [2], [3, 1]], [[0], [1, 2], [0]], [[2], [0, 1], [1, 1]]]


def test_equal_texts_are_not_negatives():
    """Anchors 0 and 2 share their positive, and the hard negatives repeat anchors 1 and 0."""
    exclude = torch.tensor([[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 0], [1, 0, 1, 0, 0, 0]]).bool()
    model = Bag(0)
    anchors, *others = (model(tokenised(column))["sentence_embedding"] for column in COLUMNS)
    unit = [nn.functional.normalize(each, dim=-1) for each in (anchors, torch.cat(others))]
    expected = CrossModalLoss(Uncorrected(), "text").of_features(*unit, 3.0, exclude=exclude).loss
    torch.testing.assert_close(loss_of(COLUMNS, Uncorrected()), expected)
    assert loss_of(COLUMNS, Uncorrected(), same_text=False) > expected


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_labels_and_class_probabilities_apply_to_joint_contrasts(chunk_size):
    """Hard negatives have no class, or that of a pair."""
    columns, eta = [tokenised(column) for column in COLUMNS], [0.3, 0.0, 0.1]
    options = {"same_text": False, "contrast": "joint"}
    for estimator, known, facts in (
        (Oracle(), {"labels": torch.tensor([0, 1, 0])}, {"eta": None, "labels": [0, 1, 0]}),
        (
            Oracle(),
            {"labels": torch.tensor([0, 1, 0, -1, -1, -1])},
            {"eta": None, "labels": [0, 1, 0]},
        ),
        (
            Oracle(),
            {"labels": torch.tensor([False, True, False])},
            {"eta": None, "labels": [0, 1, 0]},
        ),
        (Debiased(), {"class_probability": torch.tensor(eta, dtype=torch.float64)}, {"eta": eta}),
    ):
        model = Bag(0)
        loss = RankingLoss(
            model, estimator, 3.0, same_text=False, contrast="joint", chunk_size=chunk_size
        )
        actual = loss([dict(column) for column in columns], **known)
        book.assert_same(
            actual, by_a_loop(model, COLUMNS, model, None, **facts, **options), [model.words]
        )
    loss = RankingLoss(Bag(0), Oracle(), 3.0, same_text=False, contrast="joint")
    # the hard negative of pair 0 has the class of pair 1
    classes = torch.tensor([0, 1, 0, 1, 2, 2])
    with_class, without = (
        loss([dict(column) for column in columns], labels) for labels in (classes, classes[:3])
    )
    assert with_class < without


JOINT = [
    Debiased(0.1),
    HardNegative(1.0, 0.1),
    Bayesian(0.8, 1.0, 0.1),
    Quantile(0.3),
    Removed(0.2),
    Removed(0.2, top_k=2),
    Reweighted(),
    AdjustedInfoNCE(0.4, 0.3),
    Guided(),
]


@pytest.mark.parametrize("estimator", JOINT, ids=repr)
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_each_estimator_gets_the_negatives_of_joint_contrasts_and_no_other_column(
    estimator, chunk_size
):
    model, draws = Bag(0), torch.Generator().manual_seed(3)
    columns = [torch.randint(WORDS, (4, 3), generator=draws).tolist() for _ in range(3)]
    loss = RankingLoss(
        model, estimator, 3.0, same_text=False, contrast="joint", chunk_size=chunk_size
    )
    actual = loss([tokenised(column) for column in columns])
    a, c, hard = (
        nn.functional.normalize(model.words[torch.tensor(column)].mean(1), dim=-1)
        for column in columns
    )
    documents, expected = torch.cat((c, hard)), 0.0
    for i in range(4):
        others = [j for j in range(8) if j % 4 != i]
        cosines = torch.cat(
            (
                documents[[j for j in range(8) if j != i]] @ a[i],
                a[others[:3]] @ a[i],
                documents[others] @ c[i],
            )
        )
        positive = (a[i] @ c[i])[None]
        known = {"similarity": cosines.detach()[None], "positive_similarity": positive.detach()}
        mass = estimator(3.0 * positive, 3.0 * cosines[None], temperature=1 / 3, **known)
        expected += book.anchor_loss(3.0 * positive[0], mass.exp()[0]) / 4
    book.assert_same(actual, expected, [model.words])


def test_queries_with_one_answer_are_not_negatives_of_each_other():
    """Anchors 0 and 1 differ but share their positive; to both, only pair 2 is negative."""
    anchors, positives = [[0], [1], [2]], [[3], [3], [0, 1]]
    model = Bag(0)
    actual = RankingLoss(model, Uncorrected(), 3.0, contrast="joint")(
        [tokenised(column) for column in (anchors, positives)]
    )
    a, c = ([model.words[text].mean(0) for text in column] for column in (anchors, positives))
    expected = 0.0
    for i, others in enumerate(([2], [2], [0, 1])):
        cosines = [
            book.cosine(*each)
            for j in others
            for each in ((a[i], c[j]), (a[i], a[j]), (c[i], c[j]))
        ]
        positive = 3.0 * book.cosine(a[i], c[i])
        expected += (
            book.anchor_loss(
                positive, book.uncorrected([positive], [3.0 * each for each in cosines])
            )
            / 3
        )
    book.assert_same(actual, expected, [model.words])


class Dropping(nn.Module):
    """A bag of words with dropout. At each call, it counts the mini-batches whose activations are
    still in memory.
    """

    def __init__(self):
        super().__init__()
        self.words = nn.Parameter(
            torch.randn(WORDS, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        )
        self.activations, self.rows, self.alive = [], [], 0

    def forward(self, features):
        self.alive = max(self.alive, sum(each() is not None for each in self.activations))
        vectors = (self.words[features["input_ids"]] * features["attention_mask"][..., None]).sum(1)
        # an array lives as long as the graph keeps the tensor that shares its memory
        factors = np.full(vectors.shape, 1.5)
        self.activations.append(weakref.ref(factors))
        self.rows.append(len(vectors))
        features["sentence_embedding"] = (
            nn.functional.dropout(vectors, 0.3, self.training) * torch.from_numpy(factors)
        ).tanh()
        return features


@pytest.mark.parametrize("contrast", ["documents", "joint"])
@pytest.mark.parametrize("size", [1, 2, 5, 50])
@pytest.mark.parametrize("with_guide", [False, True])
def test_mini_batches_give_the_loss_and_gradient_of_the_batch(contrast, size, with_guide):
    """With dropout, and accumulated over two batches; the reference embeds the mini-batches at once
    with the same seeds.
    """
    draws = torch.Generator().manual_seed(1)
    batches = [
        [torch.randint(WORDS, (5, 3), generator=draws).tolist() for _ in range(3)] for _ in range(2)
    ]
    model, guide = Dropping(), Bag(1) if with_guide else None
    estimator = Guided(0.05) if with_guide else Debiased(0.1)
    options = {"contrast": contrast, "guide": guide}
    loss = RankingLoss(model, estimator, 3.0, **options, mini_batch_size=size)
    reference = RankingLoss(
        lambda features: {"sentence_embedding": features["embedding"]}, estimator, 3.0, **options
    )
    values, gradients = [], []
    for in_parts in (True, False):
        torch.manual_seed(2)
        model.zero_grad()
        for columns in batches:
            features = [tokenised(column) for column in columns]
            if in_parts:
                value = loss(features)
            else:
                for column in features:
                    parts = zip(*(each.split(size) for each in column.values()), strict=True)
                    rows = [
                        model(dict(zip(column, part, strict=True)))["sentence_embedding"]
                        for part in parts
                    ]
                    column["embedding"] = torch.cat(rows)
                value = reference(features)
            values.append(value.item())
            after = torch.get_rng_state()
            (2 * value).backward()
            assert torch.equal(torch.get_rng_state(), after)
        gradients.append(model.words.grad.clone())
        if in_parts:
            assert max(model.rows) <= size
            assert model.alive <= 1
    assert model.alive > 1  # in the reference
    assert values[:2] == pytest.approx(values[2:], rel=1e-12)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-15)
    assert gradients[0].any()
    if with_guide:
        assert max(len(each["input_ids"]) for each in guide.seen[: len(guide.seen) // 2]) <= size


def test_mini_batches_embed_once_without_gradients():
    model = Dropping().eval()
    with torch.no_grad():
        values = [
            RankingLoss(model, Uncorrected(), mini_batch_size=size)(
                [tokenised(column) for column in COLUMNS]
            )
            for size in (2, None)
        ]
    torch.testing.assert_close(*values, rtol=1e-12, atol=0)
    assert model.rows == [2, 1] * 3 + [3] * 3


def in_a_row(texts):
    lengths = torch.tensor([0, *map(len, texts)])
    return torch.tensor([word for text in texts for word in text]), lengths.cumsum(0)


def of_static_embedding(texts):
    ids, ends = in_a_row(texts)
    return {"input_ids": ids, "offsets": ends[:-1]}


def of_flash_attention(texts):
    ids, ends = in_a_row(texts)
    return {"input_ids": ids[None], "cu_seq_lens_q": ends}


@pytest.mark.parametrize(
    "layout",
    [
        lambda texts: tokenised(texts, width=5),
        lambda texts: tokenised(texts, left=True),
        lambda texts: tokenised(texts, width=7, left=True),
        of_static_embedding,
        of_flash_attention,
    ],
    ids=["wide", "left", "wide left", "offsets", "cu_seq_lens"],
)
def test_equal_texts_are_recognised_with_any_padding(layout):
    def model(features):
        return {"sentence_embedding": features["embedding"]}

    generator = torch.Generator().manual_seed(0)
    embeddings = [{"embedding": torch.randn(3, 4, generator=generator)} for _ in COLUMNS]
    loss = RankingLoss(model, Uncorrected())
    expected = loss(
        [tokenised(texts) | each for texts, each in zip(COLUMNS, embeddings, strict=True)]
    )
    assert expected != RankingLoss(model, Uncorrected(), same_text=False)(embeddings)
    features = [
        tokenised(COLUMNS[0]) | embeddings[0],
        *({**layout(COLUMNS[n]), **embeddings[n]} for n in (1, 2)),
    ]
    assert torch.equal(loss(features), expected)


def test_a_guide_gets_the_tokens_no_gradient_and_no_dropout():
    model, guide = BagWithModes(0), BagWithModes(1)
    loss = RankingLoss(model, Guided(), guide=guide)
    loss([tokenised(column) for column in COLUMNS]).backward()
    assert guide.modes == [False] * 3
    assert guide.words.grad is None
    assert model.words.grad.abs().sum() > 0
    assert [each.keys() for each in guide.seen] == [{"input_ids", "attention_mask"}] * 3


def test_a_model_that_guides_itself_keeps_its_dropout():
    model = BagWithModes(0)
    model.frozen = nn.BatchNorm1d(1).eval()
    loss = RankingLoss(model, Guided(), guide=model)
    loss([tokenised(column) for column in COLUMNS])
    assert model.modes == [True] * 3 + [False] * 3
    assert model.training
    assert not model.frozen.training


def test_an_anchor_whose_candidates_are_all_equal_has_loss_0():
    assert loss_of([[[0]] * 40, [[1]] * 40], Guided()) == 0
    assert loss_of(
        [[[0]] * 40, [[1]] * 40], Uncorrected(), same_text=False
    ).item() == pytest.approx(math.log(40))


def test_labels_and_known_similarity_reach_the_estimator():
    labels = torch.tensor([0, 1, 0])
    columns = [tokenised(column) for column in COLUMNS[:2]]
    oracle = RankingLoss(Bag(0), Oracle(), same_text=False)(columns, labels)
    same = (labels[:, None] == labels).double()
    similarity = torch.tensor([[0.0, 0.0, 0.9], [0.0, 0.0, 0.0], [0.9, 0.0, 0.0]])
    unit = [
        nn.functional.normalize(Bag(0)(tokenised(column))["sentence_embedding"], dim=-1)
        for column in COLUMNS[:2]
    ]
    expected = CrossModalLoss(Removed(0.5), "text").of_features(
        *unit, 20.0, negative_similarity=similarity
    )
    assert torch.equal((similarity > 0.5).double() + torch.eye(3), same)
    torch.testing.assert_close(oracle, expected.loss)


def test_chunks_and_autocast_do_not_change_the_loss():
    for estimator in (Uncorrected(), Guided(0.05)):
        expected = loss_of(COLUMNS, estimator)
        torch.testing.assert_close(
            loss_of(COLUMNS, estimator, chunk_size=2), expected, rtol=1e-12, atol=0
        )
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(loss_of(COLUMNS, estimator), expected, rtol=1e-12, atol=0)


class Tokenizer:
    def __init__(self, *words):
        self.words = words

    def get_vocab(self):
        return {word: number for number, word in enumerate(self.words)}


def with_words(seed, *words, longest=None):
    model = Bag(seed)
    model.tokenizer = Tokenizer(*words)
    model.max_seq_length = longest
    return model


def test_a_guide_with_the_same_vocabulary_is_accepted():
    model = with_words(0, "a", "b")
    # a moving average, for example, has no tokenizer
    for guide in (with_words(1, "a", "b"), Bag(1)):
        assert RankingLoss(model, Guided(), guide=guide).guide is guide


@pytest.mark.parametrize("contrast", ["documents", "joint", "symmetric"])
@pytest.mark.parametrize("same_text", [True, False])
@pytest.mark.parametrize("estimator", [Debiased(0.1), Guided()], ids=repr)
def test_a_batch_of_one_pair_has_loss_and_gradient_0(contrast, same_text, estimator):
    model = Bag(0)
    loss = RankingLoss(model, estimator, same_text=same_text, contrast=contrast)(
        [tokenised([[0]]), tokenised([[1]])]
    )
    loss.backward()
    assert loss.item() == 0
    assert all(not parameter.grad.any() for parameter in model.parameters())
    assert loss_of([[[0]], [[1]], [[2]]], Uncorrected()).item() > 0  # with a hard negative


def test_facts_that_are_not_used_can_be_ignored():
    facts = {"labels": torch.arange(3), "class_probability": 0.1, "index": torch.arange(3)}
    loss = RankingLoss(Bag(0), Uncorrected(), 3.0, unused="ignore")
    assert torch.equal(
        loss([tokenised(column) for column in COLUMNS], **facts), loss_of(COLUMNS, Uncorrected())
    )


def test_the_share_of_hard_negatives_that_a_guide_removes_is_that_of_the_latest_call():
    """Each anchor has two; the batch of a call without any has no share."""
    columns = [[[0], [1], [2]], [[0, 1], [2, 3], [1]], [[0, 0, 1], [3], [0, 3]], [[2], [3, 3], [3]]]
    model = Bag(0)
    loss = RankingLoss(model, Guided(), 3.0, same_text=False)
    assert loss.share_of_hard_removed.isnan()
    loss([tokenised(column) for column in columns])
    a, c, *hard = ([model.words[text].mean(0) for text in column] for column in columns)
    removed = [
        book.cosine(a[i], column[i]) > book.cosine(a[i], c[i]) for i in range(3) for column in hard
    ]
    assert 0 < sum(removed) < 6
    assert loss.share_of_hard_removed.item() == pytest.approx(sum(removed) / 6)
    loss([tokenised(column) for column in columns[:2]])
    assert loss.share_of_hard_removed.isnan()


def test_equal_texts_are_no_hard_negatives_that_a_guide_removes():
    """The guide removes none of the others; the hard negative of row 0 is its positive."""
    columns = [[[0], [1]], [[0, 0, 1], [1, 2]], [[0, 0, 1], [0]]]
    loss = RankingLoss(Bag(0), Guided(-2.0), 3.0)
    loss([tokenised(column) for column in columns])
    assert loss.share_of_hard_removed.item() == 0
    loss = RankingLoss(Bag(0), Guided(0.01), 3.0)
    loss([tokenised(column) for column in columns])
    assert loss.share_of_hard_removed.item() == 0


@pytest.mark.parametrize("same_text", [True, False])
def test_excluded_columns_of_a_symmetric_contrast_are_transposed_for_the_positives(same_text):
    """No two texts are equal."""
    columns = [[[0], [1], [2], [3]], [[0, 1], [1, 2], [2, 3], [3, 3, 0]]]
    exclude = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]).bool()
    model = Bag(0)
    loss = RankingLoss(model, Uncorrected(), 3.0, same_text=same_text, contrast="symmetric")
    actual = loss([tokenised(column) for column in columns], exclude=exclude)
    a, c = (torch.stack([model.words[text].mean(0) for text in column]) for column in columns)
    losses = []
    for i, side in itertools.product(range(4), (0, 1)):
        places = [(i, j) if side == 0 else (j, i) for j in range(4) if j != i]
        logits = [
            3.0 * book.cosine(a[one], c[other]) for one, other in places if not exclude[one, other]
        ]
        losses.append(book.anchor_loss(3.0 * book.cosine(a[i], c[i]), book.exp_sum(logits)))
    book.assert_same(actual, sum(losses) / 8, [model.words])


def in_mini_batches(layout):
    return RankingLoss(Bag(0), Uncorrected(), same_text=False, mini_batch_size=2)(
        [layout(column) for column in COLUMNS]
    )


def labelled(classes, kind=torch.tensor):
    features = [tokenised(column) for column in COLUMNS]
    return RankingLoss(Bag(0), Oracle(), contrast="joint")(features, kind(classes))


def given_facts(**facts):
    return RankingLoss(Bag(0), Uncorrected())([tokenised(column) for column in COLUMNS], **facts)


PIXELS = {**tokenised([[0]]), "pixel_values": torch.zeros(1, 3)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankingLoss(Bag(0), Uncorrected(), scale=0.0), r"scale is 0\.0"),
        (
            lambda: RankingLoss(Bag(0), Uncorrected(), contrast="queries"),
            "contrast is 'queries'.*documents, joint, symmetric.*negative",
        ),
        (lambda: RankingLoss(Bag(0), Uncorrected(), mini_batch_size=0), "mini_batch_size is 0"),
        (lambda: in_mini_batches(of_static_embedding), r"mini_batch_size.*offsets \(3,\)"),
        (lambda: in_mini_batches(of_flash_attention), r"mini_batch_size.*cu_seq_lens_q \(4,\)"),
        (
            lambda: in_mini_batches(lambda texts: tokenised(texts) | {"pixels": torch.ones(7, 2)}),
            r"pixels \(7, 2\)",
        ),
        (lambda: loss_of(COLUMNS, Oracle(), contrast="joint"), "labels is missing"),
        (lambda: labelled([0, 1, 0], list), "labels is a list"),
        (lambda: labelled([0, 1]), r"labels has shape \(2,\); expected \(6,\)"),
        (lambda: RankingLoss(Bag(0), Debiased(0.1), guide=Bag(1)), "guide is given.*Debiased"),
        (
            lambda: RankingLoss(with_words(0, "a", "b"), Guided(), guide=with_words(1, "b", "a")),
            "guide.*Bag.*preprocess",
        ),
        (
            lambda: RankingLoss(
                with_words(0, longest=512), Guided(), guide=with_words(1, longest=128)
            ),
            "guide.*Bag.*preprocess",
        ),
        (
            lambda: RankingLoss(Bag(0), Guided(), guide={"a": torch.ones(2)}),
            "guide.*Bag.*preprocess",
        ),
        (lambda: RankingLoss(Bag(0), Guided(), guide={}), "guide has 0 vectors"),
        (
            lambda: RankingLoss(Bag(0), Guided(), guide={"a": torch.ones(2), "b": torch.ones(3)}),
            r"2 vectors.*\(2,\), \(3,\)",
        ),
        (
            lambda: RankingLoss(Bag(0), Debiased(0.1), guide={"a": torch.ones(2)}),
            "guide is given.*Debiased",
        ),
        (lambda: loss_of(COLUMNS[:1], Uncorrected()), "1 columns"),
        (
            lambda: RankingLoss(Bag(0), Uncorrected(), negatives="others"),
            "negatives is 'others'; expected one of all, in_batch, hard",
        ),
        (
            lambda: loss_of(COLUMNS[:2], Uncorrected(), negatives="hard"),
            'negatives is "hard", but these anchors have no hard negatives',
        ),
        (
            lambda: RankingLoss(Bag(0), Uncorrected(), unused="warn"),
            "unused is 'warn'; expected one of error, ignore",
        ),
        (lambda: given_facts(labels=torch.arange(3)), "labels is given, but Uncorrected"),
        (
            lambda: given_facts(class_probability=0.1),
            "class_probability is given, but Uncorrected.*unused",
        ),
        (lambda: given_facts(index=torch.arange(3)), "index is given, but Uncorrected"),
        (lambda: given_facts(group=torch.arange(2)), r"group has shape \(2,\); expected \(3,\)"),
        (lambda: loss_of(COLUMNS, Oracle()), "labels is missing"),
        (
            lambda: RankingLoss(Bag(0), Uncorrected())([{"input_ids": torch.ones(2, 2)}] * 2),
            "input_ids; pass same_text=False",
        ),
        (
            lambda: RankingLoss(Bag(0), Uncorrected())([PIXELS] * 2),
            "pixel_values; pass same_text=False",
        ),
    ],
)
def test_invalid_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()

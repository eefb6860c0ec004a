"""The training texts of a run: how positives are drawn, which columns a batch has, and what is
known of them.
"""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch

from tests.questions import question_source, subset_of
from trueneg.data.samples import Subset
from trueneg.data.texts.text_source import TextSource
from trueneg.data.texts.training_split import TextData

CPU = torch.device("cpu")
NOTHING = np.empty(0, np.int64)
# Two labels of different sizes; 0, 1 and 2 are equal after normalisation, and so are 7 and 8.
TEXTS = [
    "Lost",
    "lost!",
    "LOST",
    "Gone",
    "Stolen",
    "Missing",
    "Where is it",
    "Top up",
    "top up.",
    "Charge",
]
CLASSES = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]
EQUAL = [{0, 1, 2}, {7, 8}]


def training_data(positives, train=None, pairs=None):
    sentences = pd.DataFrame({"sentence": TEXTS, "class": np.array(CLASSES, np.int64), "split": ""})
    pairs = np.empty((0, 2), np.int64) if pairs is None else pairs
    source = TextSource("made up", sentences, pairs, ("loss", "money"))
    train = np.arange(len(TEXTS)) if train is None else np.asarray(train)
    return TextData(
        source,
        Subset(0, source.checksum, train, NOTHING),
        positives,
        CPU,
    )


def drawn(data, epochs):
    generator = torch.Generator().manual_seed(0)
    return [data.epoch("", generator) for _ in range(epochs)]


def pairs_of(epochs):
    return Counter(
        pair
        for epoch in epochs
        for pair in zip(epoch.anchors.tolist(), epoch.columns[:, 0].tolist(), strict=True)
    )


def equal(first, second):
    return first == second or any({first, second} <= group for group in EQUAL)


def test_a_text_of_the_label_is_drawn_and_each_equally_often():
    counts = pairs_of(drawn(training_data("same_label"), 4000))
    p_values = []
    for anchor in range(len(TEXTS)):
        partners = {column: count for (row, column), count in counts.items() if row == anchor}
        allowed = {
            j for j in range(len(TEXTS)) if CLASSES[j] == CLASSES[anchor] and not equal(anchor, j)
        }
        assert partners.keys() == allowed
        assert sum(partners.values()) == 4000
        p_values.append(
            scipy.stats.chisquare(list(partners.values())).pvalue if len(allowed) > 1 else 1.0
        )
    assert min(p_values) > 0.001


def test_partners_are_drawn_from_the_texts_that_the_run_is_trained_on():
    train = [0, 3, 5, 7, 9]
    data = training_data("same_label", train=train)
    assert data.sentences == [TEXTS[row] for row in train]
    assert pairs_of(drawn(data, 200)).keys() == {
        (a, b) for a in range(3) for b in range(3) if a != b
    } | {(3, 4), (4, 3)}


@pytest.mark.parametrize("positives", ["same_label", "dropout"])
def test_every_text_is_an_anchor_once_per_epoch_in_another_order(positives):
    epochs = drawn(training_data(positives), 5)
    orders = [epoch.anchors.tolist() for epoch in epochs]
    assert all(sorted(order) == list(range(len(TEXTS))) for order in orders)
    assert len(set(map(tuple, orders))) == 5
    again = drawn(training_data(positives), 5)
    assert all(torch.equal(a.columns, b.columns) for a, b in zip(epochs, again, strict=True))


def test_with_dropout_a_text_is_its_own_positive():
    for epoch in drawn(training_data("dropout"), 3):
        assert torch.equal(epoch.columns, epoch.anchors[:, None])


def test_given_pairs_keep_their_positive_and_the_order_of_hard_negatives():
    pairs, train = (
        np.array([[0, 4, 8, 9], [1, 5, 9, 7], [2, 6, 7, 8], [0, 5, 9, 8], [3, 4, 7, 9]]),
        [0, 1, 3, 4],
    )
    data = training_data("given", pairs=pairs, train=train)
    rows = np.unique(pairs[train])
    assert data.sentences == [TEXTS[row] for row in rows]
    epochs = drawn(data, 20)
    for epoch in epochs:
        whole = np.column_stack([rows[epoch.anchors], rows[epoch.columns]])
        assert sorted(map(tuple, whole.tolist())) == sorted(map(tuple, pairs[train].tolist()))
    assert len({tuple(epoch.anchors.tolist()) for epoch in epochs}) > 1
    assert data.per_epoch() == 4


@pytest.mark.parametrize(
    "data",
    [
        training_data("same_label"),
        training_data(
            "given",
            train=range(6),
            pairs=np.array([[0, 4, 8], [1, 5, 9], [3, 6, 7], [8, 5, 2], [4, 3, 1], [7, 9, 4]]),
        ),
    ],
    ids=["drawn", "given"],
)
def test_same_texts_are_those_of_the_pair_and_of_pairs_with_its_anchor(data):
    given = [[TEXTS[row] for row in pair[:2]] for pair in data.source.pairs]
    is_pair = {(TEXTS.index(a), TEXTS.index(b)) for pair in given for a, b in (pair, pair[::-1])}
    for epoch in drawn(data, 5):
        pairs = epoch.part(slice(None), CPU)
        anchors, columns = (
            [TEXTS.index(data.sentences[number]) for number in each.tolist()] for each in pairs
        )
        for i, anchor in enumerate(anchors):
            of_pairs = [
                equal(columns[j], anchor) or equal(columns[j], columns[i])
                for j in range(len(columns))
            ]
            expected = [
                same or (j < len(anchors) and equal(anchors[j], anchor))
                for j, same in enumerate(of_pairs)
            ]
            assert data.same_text(pairs)[i].tolist() == expected
            expected = [
                same or any(equal(anchor, a) and equal(column, b) for a, b in is_pair)
                for same, column in zip(expected, columns, strict=True)
            ]
            assert data.known_positives(pairs)[i].tolist() == expected
        assert torch.equal(data.reports_with(pairs), data.same_text(pairs))


def test_no_given_pair_is_a_negative_in_a_chain_of_pairs():
    """a–b, b–c and a–c; and a row whose hard negative is the positive of another row."""
    a, b, c, other, hard = 3, 4, 5, 6, 9
    pairs = np.array([[a, b, hard], [b, c, hard], [a, c, hard], [a, other, b]])
    data = training_data("given", train=range(4), pairs=pairs)
    for epoch in drawn(data, 5):
        pairs = epoch.part(slice(None), CPU)
        same = data.known_positives(pairs)
        anchors, columns = (
            [TEXTS.index(data.sentences[number]) for number in each.tolist()] for each in pairs
        )
        negatives = {
            (anchor, column)
            for i, anchor in enumerate(anchors)
            for j, column in enumerate(columns)
            if not same[i, j]
        }
        assert negatives == {(a, hard), (b, hard), (b, other)}


def test_the_positive_of_rows_with_different_negatives_is_never_a_negative():
    pairs = np.array([[3, 4, hard] for hard in (5, 6, 7, 9)] + [[3, 4, 4]])
    data = training_data("given", train=range(5), pairs=pairs)
    batch = data.epoch("", torch.Generator().manual_seed(0)).part(slice(None), CPU)
    is_positive = np.array(data.sentences)[batch.columns] == TEXTS[4]
    assert is_positive.sum() == 6
    np.testing.assert_array_equal(data.known_positives(batch), np.tile(is_positive, (5, 1)))


@pytest.mark.parametrize("made", [{}, {"given": True, "hard": 2}], ids=["texts", "pairs"])
def test_what_is_known_of_training_texts_comes_from_their_rows(made):
    source = question_source(**made)
    data = TextData(source, subset_of(source), "given" if made else "same_label", CPU)
    table = source.sentences.iloc[data.rows]
    assert (
        table["sentence"].tolist()
        == data.sentences
        == [data.texts[number] for number in data.text_of.tolist()]
    )
    assert table["class"].tolist() == data.class_of.tolist()
    assert sorted(set(data.sentences)) == data.texts
    anchors = data.epoch("", torch.Generator()).anchors.unique().numpy()
    for name, column in (
        ("language model", "eta"),
        ("permuted", "eta permuted"),
        ("length", "eta by length"),
    ):
        np.testing.assert_allclose(
            data.class_probability(name)[anchors], table[column].to_numpy()[anchors], rtol=1e-6
        )
    labels = source.labels[subset_of(source).train].tolist()
    for label, eta in zip(
        data.class_of[anchors].tolist(),
        data.class_probability("true")[anchors].tolist(),
        strict=True,
    ):
        assert eta == pytest.approx(labels.count(label) / len(labels))
    # The control has the same values of η, which hard negatives do not take part in.
    permuted = data.class_probability({"true_share": 0.0})[anchors]
    assert (
        permuted.sort().values.tolist()
        == data.class_probability("true")[anchors].sort().values.tolist()
    )
    assert not torch.equal(permuted, data.class_probability("true")[anchors])

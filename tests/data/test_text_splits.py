"""Splits of texts: which labels and texts a run is trained, selected and tested on."""

import dataclasses
import time

import networkx
import numpy as np
import pandas as pd
import pytest

from trueneg.data.samples import read_subsets, refuse_leakage, write_subsets
from trueneg.data.texts.text_files import label_sets, source_of
from trueneg.data.texts.text_source import TextSource
from trueneg.data.texts.text_splits import SEEN, UNSEEN, text_subset
from trueneg.errors import UserError

LABELS = {
    "train": 6,
    "validation_unseen": 2,
    "test_unseen": 3,
    "seed": 5,
    "per_run": None,
    "fraction": 1.0,
}
DRAWN = {"positives": "same_label", "labels": None, "validation": 0.1, "test": 0.2, "text": None}
NOTHING = np.empty((0, 2), np.int64)
ARRAYS = ("train", *SEEN, *UNSEEN)


def texts_source(seed=0, labels=12, size=400, texts=300, **changes):
    """Make labelled texts, of which some are equal after normalisation, also under different
    labels.
    """
    generator = np.random.default_rng(seed)
    numbers = generator.integers(0, texts, size)
    sentences = pd.DataFrame(
        {
            "sentence": [
                f"{'Text' if generator.random() < 0.5 else 'text'} {number}" for number in numbers
            ],
            "class": generator.integers(0, labels, size),
            "split": "",
        }
    )
    names = tuple(f"label {number:02}" for number in range(labels))
    return TextSource("made up", sentences.assign(**changes), NOTHING, names)


def pairs_source(seed=0, size=300, texts=700, negatives=1, labels=0):
    """Make pairs of random texts, which form groups of different sizes."""
    generator = np.random.default_rng(seed)
    numbers = np.array([generator.choice(texts, 2 + negatives, replace=False) for _ in range(size)])
    table = pd.DataFrame(numbers).map("text {}".format)
    table.insert(0, "label", generator.integers(0, labels, size).astype(str) if labels else "")
    table.insert(0, "split", "")
    return source_of({"source": "pairs"}, table, "")


def texts_of(source, samples):
    """Return the anchors and positives of samples."""
    rows = source.pairs[samples][:, :2] if len(source.pairs) else source.anchors[samples]
    return {text.lower() for text in source.sentences["sentence"].iloc[rows.ravel()]}


@pytest.mark.parametrize("seed", range(5))
def test_a_share_of_each_label_is_held_out(seed):
    source = texts_source(seed, texts=10**9, labels=9)
    subset = text_subset(source, DRAWN, seed)
    for label in range(9):
        total = np.count_nonzero(source.labels == label)
        counts = [
            np.count_nonzero(source.labels[getattr(subset, name)] == label)
            for name in ("train", "validation", "test")
        ]
        assert counts == [
            total - round(0.1 * total) - round(0.2 * total),
            round(0.1 * total),
            round(0.2 * total),
        ]
    together = np.concatenate([subset.train, subset.validation, subset.test])
    assert sorted(together) == list(range(400))
    assert subset.labels == list(range(9))
    assert subset.left_out == ""


def test_seeds_draw_different_texts_and_labels():
    source, settings = texts_source(), DRAWN | {"labels": LABELS | {"per_run": 3}}
    first, again, second = (text_subset(source, settings, seed) for seed in (0, 0, 1))
    assert all((getattr(first, name) == getattr(again, name)).all() for name in ARRAYS)
    assert first.labels != second.labels
    assert first.labels == sorted(first.labels)
    assert set(np.unique(source.labels[first.bank])) == set(first.labels)
    assert set(source.labels[first.test_unseen]) == set(source.labels[second.test_unseen])
    assert set(first.test.tolist()) != set(second.test.tolist())


def test_two_texts_of_each_label_remain_for_training():
    labels = np.repeat(np.arange(6), [2, 3, 4, 5, 30, 30])
    sentences = pd.DataFrame(
        {
            "sentence": [f"text {number}" for number in range(len(labels))],
            "class": labels,
            "split": "",
        }
    )
    subset = text_subset(TextSource("few", sentences, NOTHING, tuple("abcdef")), DRAWN, 0)
    counts = {
        name: np.bincount(labels[getattr(subset, name)], minlength=6).tolist() for name in SEEN
    }
    assert counts == {
        "bank": [2, 2, 2, 3, 21, 21],
        "validation": [0, 0, 1, 1, 3, 3],
        "test": [0, 1, 1, 1, 6, 6],
    }


def test_official_splits_are_kept():
    split = np.random.default_rng(1).choice(["train", "validation", "test"], 400)
    source = texts_source(texts=10**9, split=split)
    subset = text_subset(source, DRAWN, 3)
    for name, official in (("bank", "train"), ("validation", "validation"), ("test", "test")):
        assert getattr(subset, name).tolist() == np.flatnonzero(split == official).tolist()
    split = np.where(split == "test", "test", "")
    subset = text_subset(texts_source(texts=10**9, split=split), DRAWN, 3)
    assert subset.test.tolist() == np.flatnonzero(split == "test").tolist()
    assert 0.08 < len(subset.validation) / np.count_nonzero(split == "") < 0.12


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("make", [texts_source, pairs_source], ids=["texts", "pairs"])
def test_no_text_is_in_two_splits(make, seed):
    source, settings = (
        make(seed),
        DRAWN | {"positives": "given" if make is pairs_source else "same_label"},
    )
    subset = text_subset(source, settings, seed)
    train, validation, test = (texts_of(source, getattr(subset, name)) for name in SEEN)
    assert not train & validation
    assert not train & test
    assert not validation & test
    refuse_leakage(source, subset)


@pytest.mark.parametrize("seed", range(4))
def test_unseen_texts_are_left_out_if_training_or_selection_has_them(seed):
    source, settings = texts_source(seed, size=900), DRAWN | {"labels": LABELS}
    subset, sets = text_subset(source, settings, seed), label_sets(source.label_names, LABELS)
    earlier = texts_of(source, subset.bank) | texts_of(source, subset.validation)
    for name, labels in zip(UNSEEN, (sets[1], sets[1], sets[2], sets[2]), strict=True):
        samples = getattr(subset, name)
        assert len(samples)
        assert set(source.labels[samples]) <= set(labels.tolist())
        assert not texts_of(source, samples) & earlier
        earlier |= texts_of(source, samples)
    left_out = text_subset(texts_source(seed, size=900, texts=10**9), settings, seed)
    assert left_out.left_out == ""
    assert len(subset.test_unseen) < len(left_out.test_unseen)
    assert " with the same text in another split" in subset.left_out


@pytest.mark.parametrize("positives", ["same_label", "given"])
def test_labels_for_testing_alone_change_nothing_else(positives):
    """Replace their texts, and permute their labels."""
    source = (
        texts_source(size=900)
        if positives == "same_label"
        else pairs_source(size=900, texts=3000, labels=12)
    )
    settings = DRAWN | {"labels": LABELS, "positives": positives}
    hidden = label_sets(source.label_names, LABELS)[2]
    is_hidden = source.sentences["class"].isin(hidden)
    seen = source.sentences["sentence"][~is_hidden].to_numpy()
    replaced, permuted = source.sentences.copy(), source.sentences.copy()
    replaced.loc[is_hidden, "sentence"] = np.random.default_rng(0).choice(seen, is_hidden.sum())
    permuted.loc[is_hidden, "class"] = np.random.default_rng(0).permutation(
        permuted.loc[is_hidden, "class"]
    )
    before = text_subset(source, settings, 0)
    changed = [
        text_subset(dataclasses.replace(source, sentences=sentences), settings, 0)
        for sentences in (replaced, permuted)
    ]
    for after in changed:
        for name in ARRAYS:
            if not name.startswith("test_unseen"):
                assert getattr(after, name).tolist() == getattr(before, name).tolist(), name
        assert after.labels == before.labels
    assert changed[0].test_unseen.tolist() != before.test_unseen.tolist()


def test_sets_of_labels_depend_on_their_seed_alone():
    sets = label_sets([str(number) for number in range(20)], LABELS)
    assert [len(labels) for labels in sets] == [6, 2, 3]
    assert len(set(np.concatenate(sets).tolist())) == 11
    again = label_sets(
        [chr(97 + number) for number in range(20)], LABELS | {"per_run": 2, "fraction": 0.1}
    )
    assert [labels.tolist() for labels in again] == [labels.tolist() for labels in sets]
    other = label_sets([str(number) for number in range(20)], LABELS | {"seed": 6})
    assert [labels.tolist() for labels in other] != [labels.tolist() for labels in sets]
    assert [labels.tolist() for labels in label_sets("ab", None)] == [[0, 1], [], []]
    with pytest.raises(
        UserError, match=r"dataset\.labels: .* add up to 11 labels; expected at most the 10 labels"
    ):
        label_sets("abcdefghij", LABELS)


def test_texts_of_a_run_are_divided_among_its_labels():
    source = texts_source(texts=10**9, size=900)
    drawn = {}
    for count, imbalance in ((2, 1.0), (5, 1.0), (5, 8.0), (5, 1000.0)):
        labels = LABELS | {"per_run": count, "texts": 60, "imbalance": imbalance}
        subset = text_subset(source, DRAWN | {"labels": labels}, 2)
        whole = text_subset(source, DRAWN | {"labels": LABELS | {"per_run": count}}, 2)
        assert subset.bank.tolist() == whole.bank.tolist()
        assert set(subset.train) <= set(whole.train)
        sizes = np.bincount(source.labels[subset.train], minlength=12)
        drawn[count, imbalance] = sorted(sizes[sizes > 0].tolist(), reverse=True)
    assert drawn[2, 1.0] == [30, 30]
    assert drawn[5, 1.0] == [12] * 5
    # 60 texts by factors of 8^(1/4): 60 / (1 + 0.59 + 0.35 + 0.21 + 0.13) = 26.2 for the first
    assert drawn[5, 8.0] == [26, 16, 9, 6, 3]
    assert drawn[5, 1000.0][-2:] == [2, 2]  # a label keeps an anchor and its positive


def test_labels_with_fewer_texts_than_their_share_are_counted():
    source = texts_source(texts=10**9, size=300)
    labels = LABELS | {"per_run": 2, "texts": 10_000, "imbalance": 1.0}
    subset = text_subset(source, DRAWN | {"labels": labels}, 2)
    assert subset.train.tolist() == subset.bank.tolist()
    assert f"{len(subset.train)} of 10,000 " in subset.left_out


def test_every_second_label_keeps_a_fraction():
    source = texts_source(texts=10**9, size=900)
    subsets = {
        fraction: text_subset(
            source, DRAWN | {"labels": LABELS | {"per_run": 5, "fraction": fraction}}, 2
        )
        for fraction in (0.01, 0.3, 0.6, 1.0)
    }
    whole = subsets[1.0]
    assert whole.train.tolist() == whole.bank.tolist()
    of_bank = np.bincount(source.labels[whole.bank], minlength=12)
    rare = set()
    for fraction, subset in subsets.items():
        for name in (*SEEN, *UNSEEN):
            assert getattr(subset, name).tolist() == getattr(whole, name).tolist()
        kept = np.bincount(source.labels[subset.train], minlength=12)
        cut = np.flatnonzero(kept < of_bank)
        assert kept[cut].tolist() == [max(2, round(fraction * count)) for count in of_bank[cut]]
        rare |= set(cut.tolist())
    assert len(rare) == 2  # of five
    assert (
        set(subsets[0.01].train)
        < set(subsets[0.3].train)
        < set(subsets[0.6].train)
        < set(whole.train)
    )


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_pairs_that_share_texts_stay_together(seed):
    source = pairs_source(seed, size=200, texts=1500)
    subset = text_subset(source, DRAWN | {"positives": "given"}, seed)
    graph = networkx.Graph(
        (("pair", index), row) for index, pair in enumerate(source.pairs) for row in pair[:2]
    )
    split_of = {index: name for name in SEEN for index in getattr(subset, name).tolist()}
    assert sorted(split_of) == list(range(200))
    for group in networkx.connected_components(graph):
        assert len({split_of[node[1]] for node in group if isinstance(node, tuple)}) == 1
    assert (len(subset.test), len(subset.validation)) == pytest.approx((40, 20), abs=8)
    assert subset.labels == []


@pytest.mark.parametrize("seed", range(4))
def test_a_chain_of_pairs_is_in_one_split(seed):
    chains = np.arange(60).reshape(20, 3)
    pairs = np.concatenate([chains[:, :2], chains[:, 1:], chains[:, ::2]])  # a–b, b–c, a–c
    sentences = pd.DataFrame(
        {"sentence": [f"text {number}" for number in range(60)], "class": -1, "split": ""}
    )
    subset = text_subset(
        TextSource("hub", sentences, pairs, ()), DRAWN | {"positives": "given"}, seed
    )
    splits = [{number % 20 for number in getattr(subset, name).tolist()} for name in SEEN]
    assert all(splits)
    assert sum(map(len, splits)) == 20 == len(set.union(*splits))


def test_a_group_larger_than_a_split_is_trained_on():
    """Half of all pairs share their positive."""
    pairs = np.column_stack(
        [
            np.arange(200),
            np.where(np.arange(200) < 100, 400, 401 + np.arange(200)),
            200 + np.arange(200),
        ]
    )
    sentences = pd.DataFrame(
        {"sentence": [f"text {number}" for number in range(601)], "class": -1, "split": ""}
    )
    for seed in range(5):
        subset = text_subset(
            TextSource("hub", sentences, pairs, ()), DRAWN | {"positives": "given"}, seed
        )
        assert set(range(100)) < set(subset.train)
        assert (len(subset.validation), len(subset.test)) == (20, 40)
    most = np.where((pairs >= 400) & (np.arange(200)[:, None] < 170), 400, pairs)
    subset = text_subset(TextSource("hub", sentences, most, ()), DRAWN | {"positives": "given"}, 0)
    assert (len(subset.validation), len(subset.test)) == (10, 20)  # as there are no others
    everything = TextSource("hub", sentences, np.where(pairs >= 400, 400, pairs), ())
    with pytest.raises(
        UserError,
        match=(
            r"source hub, seed 0: no text is in validation, test; expected at least one.*share an"
            r" anchor"
        ),
    ):
        text_subset(everything, DRAWN | {"positives": "given"}, 0)


def test_hard_negatives_of_held_out_pairs_do_not_count():
    """An official test pair may have a training text as its negative, but not as its positive."""
    sentences = pd.DataFrame(
        {"sentence": [f"text {number}" for number in range(12)], "class": -1, "split": "train"}
    )
    sentences.loc[6:8, "split"], sentences.loc[9:, "split"] = "validation", "test"
    pairs = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 0], [9, 10, 0], [11, 1, 10]])
    source = TextSource("official", sentences, pairs, ())
    settings = DRAWN | {"positives": "given"}
    with pytest.raises(UserError, match=r"1 of 2 test samples have the same texts as .* of train"):
        text_subset(source, settings, 0)
    subset = text_subset(source, settings | {"leakage": "allow"}, 0)
    assert (subset.train.tolist(), subset.validation.tolist(), subset.test.tolist()) == (
        [0, 1],
        [2],
        [3],
    )
    assert "1 with the same text in another split" in subset.left_out


def test_labels_without_a_second_text_are_left_out():
    rows = [("a", "x"), ("A!", "x"), ("b", "y"), ("c", "y"), ("d", "z"), ("e", "w"), ("f", "w")]
    held_out = [
        ("g", "x", "validation"),
        ("h", "y", "validation"),
        ("i", "y", "test"),
        ("j", "w", "test"),
    ]
    listed = [(*row, "train") for row in rows] + held_out
    sentences = pd.DataFrame(listed, columns=["sentence", "class", "split"])
    sentences["class"] = sentences["class"].map("wxyz".index)
    source = TextSource("lonely", sentences, NOTHING, tuple("wxyz"))
    subset = text_subset(source, DRAWN, 0)
    assert source.labels[subset.train].tolist() == [2, 2, 0, 0]
    assert (subset.labels, subset.bank.tolist(), subset.validation.tolist()) == (
        [0, 2],
        [2, 3, 5, 6],
        [8],
    )
    assert "4 of labels without a second training text" in subset.left_out
    assert len(text_subset(source, DRAWN | {"positives": "dropout"}, 0).train) == 7


def test_texts_without_labels_are_drawn_together():
    source = texts_source(texts=10**9, **{"class": -1})
    source = dataclasses.replace(source, label_names=())
    subset = text_subset(source, DRAWN | {"positives": "dropout"}, 0)
    assert [len(getattr(subset, name)) for name in ("train", *SEEN)] == [280, 280, 40, 80]
    assert subset.labels == []
    assert not any(len(getattr(subset, name)) for name in UNSEEN)


def test_leaks_are_refused():
    source = texts_source(texts=10**9)
    subset = text_subset(source, DRAWN | {"labels": LABELS}, 0)
    refuse_leakage(source, subset)
    same = source.sentences.copy()
    same.loc[subset.test[0], "sentence"] = f" {same.loc[subset.train[0], 'sentence'].upper()}"
    leaking = dataclasses.replace(source, sentences=same)
    wrong = [
        (
            leaking,
            {"source_checksum": leaking.checksum},
            "seed 0 has 1 texts in both train and test",
        ),
        (source, {"validation": subset.test}, "texts in both validation and test"),
        (source, {"test_unseen_bank": subset.bank}, "6 labels in both bank and test_unseen_bank"),
        (leaking, {}, "a different version of source made up"),
    ]
    for checked, changes, message in wrong:
        with pytest.raises(UserError, match=message):
            refuse_leakage(checked, dataclasses.replace(subset, **changes))


def test_groups_that_official_splits_share_may_be_allowed():
    source = texts_source(texts=10**9)
    sentences = source.sentences.assign(
        group=np.arange(len(source.sentences)) % 50,
        split=["train", "train", "test"] * 133 + ["test"],
    )
    source = dataclasses.replace(source, sentences=sentences)
    subset = text_subset(source, DRAWN | {"leakage": "allow"}, 0)
    refuse_leakage(source, subset)
    groups = source.samples.groups["groups"]
    assert np.intersect1d(groups[subset.train], groups[subset.test]).size
    assert "allow" in subset.leakage


@pytest.mark.parametrize("seed", range(3))
def test_a_group_of_pairs_is_in_one_split_over_all_sets_of_labels(seed):
    source = pairs_source(seed, size=400, texts=10**6, labels=11)
    groups = np.random.default_rng(seed).integers(0, 60, 400)
    sentences = source.sentences.assign(group=-1)
    for column in source.pairs[:, :2].T:
        sentences.loc[column, "group"] = groups
    source = dataclasses.replace(source, sentences=sentences)
    settings = DRAWN | {"positives": "given", "labels": LABELS}
    subset = text_subset(source, settings, seed)
    for name in ("validation", "test", "validation_unseen", "test_unseen"):
        held_out = getattr(subset, name)
        assert len(held_out)
        assert not np.intersect1d(groups[held_out], groups[subset.bank]).size


def test_empty_splits_are_refused():
    source, settings = texts_source(texts=10**9), DRAWN | {"labels": LABELS}
    official = source.sentences.assign(split="train")
    with pytest.raises(
        UserError,
        match=r"seed 7: no text is in validation, test, validation_unseen, test_unseen; expected",
    ):
        text_subset(dataclasses.replace(source, sentences=official), settings, 7)
    assert (
        len(text_subset(source, settings | {"labels": LABELS | {"test_unseen": 0}}, 0).test_unseen)
        == 0
    )


def test_subsets_are_stored(tmp_path):
    source = texts_source()
    drawn = [
        text_subset(source, DRAWN | {"labels": labels}, seed)
        for seed, labels in ((3, LABELS), (4, None))
    ]
    write_subsets(drawn, tmp_path / "subsets.parquet")
    read = read_subsets(tmp_path / "subsets.parquet")
    for subset in drawn:
        for field in dataclasses.fields(subset):
            before, after = getattr(subset, field.name), getattr(read[subset.seed], field.name)
            assert type(before) is type(after)
            assert np.array_equal(before, after), field.name


def test_many_pairs_are_split_in_seconds():
    generator = np.random.default_rng(0)
    pairs = np.column_stack([generator.integers(0, 150_000, 100_000), 150_000 + np.arange(100_000)])
    sentences = pd.DataFrame({"sentence": np.arange(250_000).astype(str), "class": -1, "split": ""})
    source, began = TextSource("many", sentences, pairs, ()), time.process_time()
    subset = text_subset(source, DRAWN | {"positives": "given"}, 0)
    assert time.process_time() - began < 5
    assert len(subset.test) == pytest.approx(20_000, abs=10)


def test_with_a_test_share_of_0_all_texts_with_a_partner_are_for_training():
    sentences = pd.DataFrame(
        {
            "sentence": ["a", "b", "A", "c", "a", "d", "e", "e"],
            "class": [0, 0, 0, 1, 1, -1, 2, 2],  # label 2 has no two different texts
            "split": ["train", "test", "test", "validation", "train", "train", "train", "test"],
        }
    )
    source = TextSource("made up", sentences, NOTHING, ("one", "two", "three"))
    subset = text_subset(source, DRAWN | {"validation": 0.0, "test": 0.0}, seed=3)
    assert subset.train.tolist() == [0, 1, 2, 3, 4]
    assert subset.labels == [0, 1]
    assert not len(subset.test)
    assert not len(subset.validation)
    assert not subset.leakage
    assert "2" in subset.left_out
    refuse_leakage(source, subset)


def test_with_a_test_share_of_0_all_pairs_are_for_training():
    source = pairs_source(texts=100)  # many of them share texts
    drawn = DRAWN | {"positives": "given", "validation": 0.0, "test": 0.0}
    subset = text_subset(source, drawn, seed=3)
    assert subset.train.tolist() == list(range(len(source.pairs)))
    assert not subset.left_out

"""Texts of tables and of CLINC150 become a source; errors name the file and the line."""

import csv
import gzip
import json
import stat
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from trueneg.data.pairs.registry import source_module, write_captions
from trueneg.data.texts import clinc150, text_table
from trueneg.data.texts.reading import prepare_texts
from trueneg.data.texts.text_source import TextSource, read_texts, write_texts
from trueneg.data.texts.text_splits import text_subset
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.pairs import TEXTS
from trueneg.specs.texts import TEXT_PAIRS
from trueneg.text.cleaning import normalised

SETTINGS = {
    "source": "text_table",
    "text_column": "text",
    "positive_column": None,
    "negative_columns": [],
    "label_column": "category",
    "restricted": False,
    "skip_incomplete": False,
}
PAIRED = {"positive_column": "answer", "negative_columns": ["wrong", "worse"]}
LONG = "How do I top up my card? " * 20_000
ROWS = [
    ["我的卡在哪里？", "card"],
    ["أين بطاقتي؟\u200f", "card"],
    ["👩‍💻🎉", "emoji"],
    ['Said "lost",  is\nlost', "card"],
    [LONG, "top up"],
    ["\u202bשלום\u202c, עולם", "emoji"],
    ["lost card", "card"],
    ["Top-up;\tlimit", "top up"],
]
SENTENCES = [" ".join(text.split()) for text, _ in ROWS]
NEGATIVES = [
    ["q1", "a1", "q2", "a2", "x"],
    ["q2", "a2", "q1", "a1", "x"],
    ["q1", "a3", "a1", "a2", "x"],
    ["q3", "a1", "q1", "q2", "y"],
    ["q2", "a2", "q1", "a1", "x"],
]


def write_csv(path, rows, header=("text", "category"), encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def settings_of(path, **changes):
    return SETTINGS | {"path": str(path)} | changes


def write_pairs(path, rows=NEGATIVES):
    return settings_of(
        write_csv(path, rows, ("text", "answer", "wrong", "worse", "category")), **PAIRED
    )


def test_texts_in_any_script_and_format_give_the_same_source(tmp_path):
    frame = pd.DataFrame(ROWS, columns=["text", "category"])
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True, force_ascii=False)
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    write_csv(tmp_path / "bom.csv", ROWS, encoding="utf-8-sig")
    write_csv(tmp_path / "wide.csv", ROWS, encoding="utf-16")
    plain = write_csv(tmp_path / "a.csv", ROWS)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    expected = text_table.read_source(settings_of(plain))
    assert expected.sentences["sentence"].tolist() == SENTENCES
    assert expected.label_names == ("card", "emoji", "top up")
    assert [expected.label_names[label] for label in expected.labels] == [
        label for _, label in ROWS
    ]
    assert set(expected.sentences["split"]) == {""}
    for name in ("a.parquet", "a.jsonl", "a.tsv", "bom.csv", "wide.csv", "a.csv.gz"):
        assert text_table.read_source(settings_of(tmp_path / name)).checksum == expected.checksum, (
            name
        )


def test_numeric_labels_are_the_same_in_every_format(tmp_path):
    frame = pd.DataFrame({"text": list("abcd"), "category": [7, 7, 8, 8]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.astype({"category": float}).to_csv(tmp_path / "a.csv", index=False)
    first, second = (
        text_table.read_source(settings_of(tmp_path / name)) for name in ("a.parquet", "a.csv")
    )
    assert first.label_names == ("7", "8")
    assert first.checksum == second.checksum


GROUPED = [
    ["q1", "a1", "C1|C2", "flu", "cause"],
    ["q2", "a2", "", "Flu ", "cause"],
    ["q3", "a3", "n/a", "Flu", "cure"],
    ["q4", "a4", "7", "flu", "cure"],
    ["q5", "a5", "7.0", "other", " cure"],
    ["q6", "a6", "C1|C2", "", "cause"],
    ["q7", "a7", "C1", "flu", "cause"],
    ["q8", "a8", "C2", "flu", "cause"],
]


def grouped(path, rows=GROUPED, **changes):
    """Settings of pairs whose group of right answers is named by concept or, without one, by name,
    together with the kind.
    """
    write_csv(path, rows, ("text", "answer", "concept", "name", "kind"))
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    lists = {"label_column": [["concept", "name"], "kind"], "positive_column": "answer"}
    return settings_of(path.with_name(f"{path.name}.gz"), **lists | changes)


def test_several_columns_name_the_group_of_right_answers(tmp_path):
    source = text_table.read_source(grouped(tmp_path / "a.csv"))
    concepts = ["C1|C2", "Flu", "Flu", "7", "7", "C1|C2", "C1", "C2"]
    groups = [(first, row[4].strip()) for first, row in zip(concepts, GROUPED, strict=True)]
    same = [[first == second for second in groups] for first in groups]
    assert (source.labels[:, None] == source.labels).tolist() == same
    assert (source.sentences["class"].to_numpy()[source.pairs[:, 1]] == source.labels).all()
    single = text_table.read_source(grouped(tmp_path / "b.csv", label_column="kind"))
    listed = text_table.read_source(grouped(tmp_path / "c.csv", label_column=["kind"]))
    assert single.checksum == listed.checksum


def test_a_row_of_no_group_is_named_and_skipped_on_request(tmp_path):
    rows = [*GROUPED, ["q9", "a9", "-", "", "cause"], ["q10", "a10", "C9", "flu", ""]]
    settings = grouped(tmp_path / "a.csv", rows)
    with pytest.raises(UserError, match=r"line 10: concept or name, kind is ''.*a label") as error:
        text_table.read_source(settings)
    assert "line 11" in str(error.value)
    assert "2 of 10 rows are skipped: 2 without a label" in text_table.check_table(
        settings | {"skip_incomplete": 2}
    )


def test_rounded_ids_are_no_groups_that_two_splits_must_not_share(tmp_path):
    rows = [[*row[:2], "1.00E+17", *row[3:]] if n == 3 else row for n, row in enumerate(GROUPED)]
    settings = grouped(tmp_path / "a.csv", rows, group_column="concept", label_column="kind")
    with pytest.raises(UserError, match=r"line 5: concept is '1\.00E\+17'; expected all digits"):
        text_table.read_source(settings | {"skip_incomplete": 4})


def test_test_texts_may_have_groups_that_training_lacks(tmp_path):
    settings = grouped(tmp_path / "a.csv")
    test = grouped(tmp_path / "b.csv", [["q9", "a9", "C9", "", "cause"]])["path"]
    assert "C9 · cause" in text_table.read_source(settings | {"test_path": test}).label_names


def test_several_columns_name_what_is_never_in_two_splits(tmp_path):
    generator = np.random.default_rng(0)
    rows = [
        [f"q{row}", f"a{row}", concept if row % 3 else "", "" if row % 3 else concept, "cause"]
        for row, concept in enumerate(generator.integers(0, 40, 200).astype(str))
    ]
    settings = grouped(tmp_path / "a.csv", rows, group_column=[["concept", "name"]])
    splits = {"positives": "given", "labels": None, "validation": 0.2, "test": 0.3}
    source = text_table.read_source(settings)
    subset = text_subset(source, settings | splits, 0)
    concepts = [
        {rows[pair][2] or rows[pair][3] for pair in samples.tolist()}
        for samples in (subset.train, subset.validation, subset.test)
    ]
    assert all(concepts)
    assert sum(map(len, concepts)) == len(set.union(*concepts))


def test_given_pairs_refer_to_one_row_per_text_and_label(tmp_path):
    source = text_table.read_source(write_pairs(tmp_path / "pairs.csv"))
    rows = source.sentences
    for pair, (*texts, label) in zip(source.pairs, NEGATIVES, strict=True):
        assert rows["sentence"].iloc[pair].tolist() == texts
        # negatives: unknown
        assert rows["class"].iloc[pair].tolist() == [source.label_names.index(label)] * 2 + [-1] * 2
    assert not rows.duplicated().any()
    assert source.anchors.tolist() == source.pairs[:, 0].tolist()
    assert [source.label_names[label] for label in source.labels] == [row[-1] for row in NEGATIVES]
    numbers = {
        text: number
        for row, texts in zip(source.text_numbers, NEGATIVES, strict=True)
        for text, number in zip(texts[:2], row, strict=True)
    }
    assert len(set(numbers.values())) == len({text for row in NEGATIVES for text in row[:2]})


FIVE = [
    ("q1", ["a1", "b1"], ["n1", "n2", "n3"]),
    ("q2", ["a2"], []),
    ("q3", ["a3", "b3", "c3"], ["n1", "q1", "A3."]),
    ("q4", ["a4"], ["n4"]),
    ("q4", ["b4"], ["n5", "a4", "Q4"]),
]


def test_lists_columns_and_lines_of_query_pos_neg_are_read_alike(tmp_path):
    lines = [{"query": text, "pos": pos, "neg": neg, "id": 7} for text, pos, neg in FIVE]
    written = "\n".join(map(json.dumps, lines))
    (tmp_path / "a.jsonl").write_text(written)
    pd.DataFrame(lines).to_parquet(tmp_path / "a.parquet")
    as_json = [[text, json.dumps(pos), json.dumps(neg)] for text, pos, neg in FIVE]
    write_csv(tmp_path / "a.csv", as_json, ("query", "pos", "neg"))
    wide = [[text, json.dumps(pos), *(neg + [""] * 3)[:3]] for text, pos, neg in FIVE]
    write_csv(tmp_path / "b.csv", wide, ("query", "pos", "negative_1", "negative_2", "negative_3"))
    columns = {"text_column": "query", "positive_column": "pos", "label_column": None}
    several = [f"negative_{place}" for place in (1, 2, 3)]
    checksums = set()
    for name in ("a.jsonl", "a.parquet", "a.csv", "b.csv"):
        negatives = several if name == "b.csv" else ["neg"]
        settings = settings_of(tmp_path / name, negative_columns=negatives, **columns)
        source = text_table.read_source(settings)
        checksums.add(source.checksum)
        assert "left out of its loss: 3 (" in source.skipped
        assert "fewer than 3 hard negatives: 2, of which 1 have none" in source.skipped
    assert len(checksums) == 1
    texts = source.sentences["sentence"].to_numpy(object)
    assert [list(dict.fromkeys(texts[row])) for row in source.matching] == [
        [text, *pos] for text, pos, _ in FIVE
    ]
    hard = [[texts[row] for row in pair[4:] if row != pair[0]] for pair in source.pairs]
    assert hard == [neg for *_, neg in FIVE]


def test_test_texts_have_rows_of_their_own(tmp_path):
    test = write_csv(
        tmp_path / "test.csv", NEGATIVES[:2], ("text", "answer", "wrong", "worse", "category")
    )
    source = text_table.read_source(write_pairs(tmp_path / "pairs.csv") | {"test_path": str(test)})
    splits = source.sentences["split"].to_numpy(object)[source.pairs]
    assert splits.tolist() == [[""] * 4] * 5 + [["test"] * 4] * 2


def test_equal_texts_are_kept_and_recognised(tmp_path):
    rows = [["Lost card", "a"], ["lost  card!", "a"], ["top up", "b"], ["Lost card", "b"]]
    source = text_table.read_source(settings_of(write_csv(tmp_path / "a.csv", rows)))
    assert source.sentences["sentence"].tolist() == [
        "Lost card",
        "lost card!",
        "top up",
        "Lost card",
    ]
    assert source.text_numbers.ravel().tolist() == [0, 0, 1, 0]


def test_a_stored_source_is_the_same_and_its_checksum_covers_what_training_sees(tmp_path):
    source = text_table.read_source(write_pairs(tmp_path / "pairs.csv"))
    write_texts(source, tmp_path / "a.npz")
    again = read_texts(tmp_path / "a.npz")
    pd.testing.assert_frame_equal(again.sentences, source.sentences, check_dtype=False)
    assert (again.pairs == source.pairs).all()
    assert (again.name, again.label_names, again.checksum) == (
        source.name,
        source.label_names,
        source.checksum,
    )
    sentences, pairs, names = source.sentences, source.pairs, source.label_names
    rated = pd.DataFrame({"first": [0], "second": [1], "score": [0.5]})
    others = [
        (sentences.assign(sentence=[*sentences["sentence"][:-1], "other"]), pairs, names),
        (sentences.assign(split="test"), pairs, names),
        (sentences.assign(**{"class": 0}), pairs, names),
        (sentences, pairs[::-1], names),
        (sentences, pairs, ("x", "z")),
        (sentences, pairs, names, rated),
        (sentences, pairs, names, rated.assign(score=0.6)),
    ]
    checksums = {TextSource("text_table", *changed).checksum for changed in others}
    assert len(checksums - {source.checksum}) == len(others)
    assert (
        TextSource("text_table", sentences.assign(eta=0.1), pairs, names).checksum
        == source.checksum
    )
    damaged = sentences.assign(sentence=sentences["sentence"].str.upper())
    privacy.write_table(damaged, tmp_path / "a.parquet", False)
    with pytest.raises(UserError, match=r"a\.npz.*checksum.*Remove it and .*a\.parquet"):
        read_texts(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["", "a"]], r"table\.csv: line 8: text is ''; expected a text"),
        ([["\u200b \ufeff", "a"]], r"line 8: text is .*; expected a text"),
        ([["\u200c\u200d\u00ad\u202e\u0301", "a"]], r"line 8: text is .*; expected a text"),
        ([["one", " "]], r"line 8: category is ''; expected a label"),
        ([["one", "a", "b"]], r"line 8 has 3 fields; expected 2"),
    ],
)
def test_an_invalid_row_is_named(tmp_path, rows, message):
    """A text spans two lines, so the row after six others begins in line 8."""
    path = write_csv(
        tmp_path / "table.csv",
        [["a b", "a"], ["c\nd", "a"], ["e", "b"], ["f", "b"], ["g", "b"], *rows],
    )
    with pytest.raises(UserError, match=message):
        text_table.check_table(settings_of(path))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, "", r"line 3: answer is ''; expected a positive"),
        (3, "['a', b, 'c']", r"line 3: worse is .*; expected a text, or a list of texts"),
        (1, "Q2 !", r"line 3: answer is 'Q2 !'; expected a text that differs"),
    ],
)
def test_an_invalid_pair_is_named(tmp_path, place, value, message):
    rows = [list(row) for row in NEGATIVES]
    rows[1][place] = value
    with pytest.raises(UserError, match=message) as error:
        text_table.read_source(write_pairs(tmp_path / "table.csv", rows))
    assert len(str(error.value).split("\n")) == 1


def test_incomplete_rows_are_skipped_and_counted_on_request(tmp_path, caplog):
    wrong = [
        ["", "a", "b", "c", "x"],
        ["q", " ", "b", "c", "x"],
        ["q", "a", "b", "c", ""],
        ["q", "Q.", "b", "c", "x"],
    ]
    settings = write_pairs(tmp_path / "table.csv", [*NEGATIVES, *wrong]) | {
        "skip_incomplete": 4,
        "labels": None,
    }
    test = write_csv(
        tmp_path / "test.csv",
        [NEGATIVES[0], wrong[0]],
        ("text", "answer", "wrong", "worse", "category"),
    )
    facts = [
        "4 of 9 rows",
        "1 without a text (line 7)",
        "1 without a positive (line 8)",
        "1 without a label",
        "1 whose positive is its text",
    ]
    assert all(fact in text_table.check_table(settings) for fact in facts)
    assert "Of the test texts, 1 of 2 rows" in text_table.check_table(
        settings | {"test_path": str(test)}
    )
    expected = text_table.read_source(write_pairs(tmp_path / "complete.csv"))
    assert text_table.read_source(settings).checksum == expected.checksum
    assert "rows are skipped" not in expected.skipped
    assert text_table.check_table(settings | {"path": str(tmp_path / "none.csv")}) == ""
    text_table.read_texts(settings)
    assert all(fact in caplog.messages[-1] for fact in ["table.csv", *facts])
    with pytest.raises(UserError, match=r"4 of 9 rows.*at most 0\b"):
        text_table.read_source(settings | {"skip_incomplete": True})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [["a", "x"], ["b", "x"]],
            "category has 1 different labels in 2 rows; expected at least two",
        ),
        (
            [["a", "x"], ["b", "y"], ["c", "z"]],
            "category has 3 different labels in 3 rows; .*several rows of each",
        ),
        (
            [["a", "x"], ["A!", "x"], ["a", "y"]],
            "all texts in text are the same; expected at least two",
        ),
        ([], r"table\.csv has no rows"),
    ],
)
def test_unusable_tables_are_refused(tmp_path, rows, message):
    with pytest.raises(UserError, match=message):
        text_table.read_source(settings_of(write_csv(tmp_path / "table.csv", rows)))


def test_unknown_labels_of_test_texts_are_refused_by_line(tmp_path):
    train = write_csv(tmp_path / "train.csv", [["a", "x"], ["b", "x"], ["c", "y"], ["d", "y"]])
    test = write_csv(tmp_path / "test.csv", [["e", "y"], ["f", "secret"], ["g", "z"], ["h", "z"]])
    with pytest.raises(
        UserError,
        match=r"test\.csv: line 3: category is 'secret'; expected a label of .*train\.csv",
    ) as error:
        text_table.read_source(settings_of(train, test_path=str(test)))
    assert "1 more" in str(error.value)
    with pytest.raises(UserError) as error:
        text_table.read_source(settings_of(train, test_path=str(test), restricted=True))
    assert "secret" not in str(error.value)


def test_a_column_with_two_purposes_is_refused(tmp_path):
    with pytest.raises(UserError, match="the columns are text, text; expected a different column"):
        text_table.read_source(
            settings_of(write_csv(tmp_path / "a.csv", ROWS), label_column="text")
        )


def test_columns_may_have_any_names(tmp_path):
    expected = text_table.read_source(write_pairs(tmp_path / "a.csv"))
    names = ["split", "label", "class", "sentence", "text 0"]
    columns = dict(
        zip(
            ("text_column", "positive_column", "label_column"),
            ("split", "label", "text 0"),
            strict=True,
        )
    )
    settings = settings_of(
        write_csv(tmp_path / "b.csv", NEGATIVES, names),
        negative_columns=["class", "sentence"],
        **columns,
    )
    assert text_table.read_source(settings).checksum == expected.checksum


RATED = {"first_column": "a", "second_column": "b", "score_column": "s"}


def test_rated_pairs_become_rows_of_their_own(tmp_path):
    table, rated = (
        write_csv(tmp_path / "a.csv", ROWS),
        [["lost card", " my  card", "3.5"], ["x", "lost card", "-1"]],
    )
    settings = settings_of(
        table, rated=RATED | {"path": str(write_csv(tmp_path / "rated.csv", rated, "abs"))}
    )
    source = text_table.read_source(settings)
    without = text_table.read_source(settings_of(table))
    write_texts(source, tmp_path / "a.npz")
    for each in (source, read_texts(tmp_path / "a.npz")):
        texts = each.sentences["sentence"]
        read = [[texts[row.first], texts[row.second], row.score] for row in each.rated.itertuples()]
        assert read == [["lost card", "my card", 3.5], ["x", "lost card", -1.0]]
        assert set(
            each.sentences.iloc[each.rated[["first", "second"]].to_numpy().ravel()]["split"]
        ) == {"rated"}
        assert each.anchors.tolist() == without.anchors.tolist()
        assert each.labels.tolist() == without.labels.tolist()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["x", "", "1"], r"rated\.csv: line 3: b is ''; expected a text"),
        (["x", "y", "3,5"], r"rated\.csv: line 3: s is '3,5'; expected a number"),
        (["x", "y", "inf"], r"line 3: s is 'inf'"),
        (["x", "['y', 'z']", "1"], r"line 3: b is .*list"),
    ],
)
def test_an_invalid_rating_is_named(tmp_path, row, message):
    rated = RATED | {"path": str(write_csv(tmp_path / "rated.csv", [["x", "y", "1"], row], "abs"))}
    settings = settings_of(write_csv(tmp_path / "a.csv", ROWS), rated=rated)
    with pytest.raises(UserError, match=message):
        text_table.check_table(settings)
    with pytest.raises(UserError) as error:
        text_table.check_table(
            settings
            | {"restricted": True, "rated": rated | {"score_column": "a", "first_column": "s"}}
        )
    assert "'x'" not in str(error.value)


CLINC = {
    "oos_val": [["weather", "oos"]],
    "val": [["Where is  it", "card"]],
    "train": [["lost\ncard", "card"], ["no card", "card"], ["top up", "pay"]],
    "oos_test": [["a", "oos"], ["b", "oos"]],
    "test": [["pay it", "pay"]],
    "oos_train": [],
}


def clinc(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return {"source": "clinc150", "path": str(path)}


def test_clinc150_keeps_its_splits_and_counts_what_is_out_of_scope(tmp_path):
    source = clinc150.read_source(clinc(tmp_path / "data.json", CLINC))
    rows = source.sentences
    read = {
        (row.split, row.sentence, source.label_names[label])
        for row, label in zip(rows.itertuples(), rows["class"], strict=True)
    }
    splits = {"train": "train", "val": "validation", "test": "test"}
    assert read == {
        (splits[part], " ".join(text.split()), label)
        for part in splits
        for text, label in CLINC[part]
    }
    assert source.skipped == clinc150.check_table(clinc(tmp_path / "data.json", CLINC))
    assert "3 out-of-scope texts" in source.skipped
    assert not source.restricted


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(CLINC)[:-9],
        "[1, 2]",
        json.dumps(CLINC | {"val": [["a"]]}),
        json.dumps(CLINC | {"val": [["a", 3]]}),
        json.dumps(CLINC | {"train": [*CLINC["train"], ["a", 3]]}),
        json.dumps(CLINC | {"val": [["", "card"]]}),
        json.dumps(CLINC | {"val": [["a", "unknown"]]}),
        json.dumps(CLINC | {"val": [["\ud800", "card"]]}),
        json.dumps({part: texts for part, texts in CLINC.items() if part != "val"}),
    ],
    ids=[
        "cut",
        "list",
        "no label",
        "number",
        "number in training",
        "empty",
        "unknown label",
        "half a character",
        "no part",
    ],
)
def test_other_json_is_refused_in_one_sentence(tmp_path, content):
    with pytest.raises(
        UserError, match=r"data\.json: cannot be read as CLINC150.*Download"
    ) as error:
        clinc150.read_source(clinc(tmp_path / "data.json", content))
    assert "\n" not in str(error.value)


LABELS = {
    "train": 2,
    "validation_unseen": 1,
    "test_unseen": 1,
    "seed": 3,
    "per_run": None,
    "fraction": 1.0,
}


def labelled_table(path, labels="abcd"):
    rows = [[f"{label} text {number}", label] for label in labels for number in range(10)]
    return write_csv(
        path, [*rows, ["Shared", "a"], ["shared!", "b"], ["shared", "c"], ["SHARED.", "d"]]
    )


def test_only_texts_of_training_labels_are_scored(tmp_path):
    test = write_csv(tmp_path / "test.csv", [[f"{label} test", label] for label in "abcd"])
    settings = settings_of(labelled_table(tmp_path / "a.csv"), test_path=str(test), labels=LABELS)
    source, listed = text_table.read_source(settings), text_table.read_texts(settings)
    subset = text_subset(
        source, settings | {"positives": "dropout", "validation": 0.2, "test": 0.2}, 0
    )
    assert len(subset.labels) == 2
    allowed = [
        text
        for text, label, split in zip(
            source.sentences["sentence"], source.labels, source.sentences["split"], strict=True
        )
        if label in subset.labels and split == ""
    ]
    assert Counter(listed["text"]) == Counter(allowed)
    groups = listed.groupby(listed["text"].map(normalised))["patient"]
    assert groups.nunique().max() == 1
    assert listed["patient"].nunique() == groups.ngroups
    assert Counter(text_table.read_texts(settings | {"labels": None})["text"]) == Counter(
        source.sentences["sentence"][source.sentences["split"] == ""]
    )
    with pytest.raises(
        UserError, match=r"dataset\.labels: .* add up to 5 labels; expected at most the 4"
    ):
        text_table.read_texts(settings | {"labels": LABELS | {"train": 3}})


def test_texts_of_all_columns_of_pairs_are_scored(tmp_path):
    settings = write_pairs(tmp_path / "pairs.csv") | {
        "labels": LABELS | {"train": 1, "validation_unseen": 0}
    }
    source = text_table.read_source(settings)
    texts = {
        label: sorted(text for *row, of in NEGATIVES for text in row if of == label)
        for label in "xy"
    }
    assert sorted(text_table.read_texts(settings)["text"]) in texts.values()
    assert len(source.label_names) == 2


def test_official_held_out_texts_of_clinc150_are_not_scored(tmp_path):
    listed = clinc150.read_texts(clinc(tmp_path / "data.json", CLINC) | {"labels": None})
    assert sorted(listed["text"]) == ["lost card", "no card", "top up"]


def scored(settings, folder):
    """Write the tables of a likelihood study of the texts; η is made up from the text."""
    write_captions(
        settings,
        sentences=folder / "sentences.parquet",
        unique=folder / "unique.parquet",
        cache=folder / "cache",
    )
    listed, restricted = privacy.read_table(folder / "sentences.parquet")
    eta = listed[["report", "index"]].assign(
        eta=listed["sentence"].map(len) / 1000, **{"eta permuted": 0.5}
    )
    privacy.write_table(eta, folder / "eta.parquet", restricted)
    released = {"fold": 1, "folder": "released", "revision": "1", "checksum": None}
    (folder / "models.json").write_text(json.dumps({"folds": 1, "models": [released]}))
    return {
        "sentences": folder / "sentences.parquet",
        "eta": folder / "eta.parquet",
        "language_models": folder / "models.json",
    }


def test_class_probabilities_are_joined_by_text(tmp_path):
    settings = settings_of(
        labelled_table(tmp_path / "a.csv"),
        labels=LABELS,
        text="likelihoods",
        positives="same_label",
        rated=None,
    )
    text = scored(settings, tmp_path)
    prepare_texts(settings, text, tmp_path / "texts" / "a.npz")
    source, plain = read_texts(tmp_path / "texts" / "a.npz"), text_table.read_source(settings)
    assert source.checksum == plain.checksum
    assert source.class_probabilities == ("language model", "permuted")
    assert source.language_model["folder"] == "released"
    listed = set(text_table.read_texts(settings)["text"])
    for sentence, eta in zip(
        source.sentences["sentence"], source.class_probability("language model"), strict=True
    ):
        assert eta == len(sentence) / 1000 if sentence in listed else np.isnan(eta)
    drawing = settings | {"validation": 0.2, "test": 0.2}
    subset = text_subset(source, drawing, 0)
    assert not np.isnan(
        source.class_probability("language model")[source.anchors[subset.train]]
    ).any()
    with pytest.raises(
        UserError, match=r"training texts have no class probability in study likelihoods"
    ):
        text_subset(source, drawing | {"labels": None}, 0)
    prepare_texts(settings, {}, tmp_path / "b.npz")
    assert read_texts(tmp_path / "b.npz").class_probabilities == ()


def test_only_the_owner_can_read_restricted_texts(tmp_path):
    settings = settings_of(
        labelled_table(tmp_path / "a.csv"), labels=None, restricted=True, rated=None
    )
    text = scored(settings, tmp_path)
    prepare_texts(settings, text, tmp_path / "t.npz")
    assert read_texts(tmp_path / "t.npz").restricted
    for name in ("t.npz", "t.parquet", "sentences.parquet"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name


def test_files_are_listed_and_missing_ones_named(tmp_path):
    table = write_csv(tmp_path / "a.csv", ROWS)
    rated = RATED | {"path": str(tmp_path / "rated.csv")}
    settings = settings_of(
        table, test_path=str(tmp_path / "test.csv"), rated=rated, positives="dropout"
    )
    assert list(text_table.user_files(settings).files) == [
        tmp_path / name for name in ("a.csv", "test.csv", "rated.csv")
    ]
    missing = text_table.missing_files(settings)
    assert [line.split(",")[0] for line in missing] == ["dataset.test_path", "dataset.rated.path"]
    assert text_table.missing_files(settings_of(tmp_path / "b.csv"))[0].startswith("reports.path")
    assert text_table.missing_files(settings_of(table)) == []


@pytest.mark.parametrize("name", TEXT_PAIRS)
def test_every_source_can_be_scored_with_the_settings_that_it_has(name):
    module = source_module(name)
    assert all(
        callable(getattr(module, function))
        for function in ("read_source", "read_texts", "check_table", "user_files", "missing_files")
    )
    scored_fields = set(TEXTS[name].model_fields)
    assert {"labels", "path"} <= scored_fields <= set(TEXT_PAIRS[name].model_fields)
    assert TEXTS[name].captions


SPELLED = {"1": ["TRUE", "true", "1", "1.0", "Yes"], "0": ["False", "0", "0.0", "no", "NO"]}
LACKING = ["NA", "nan", "None", "null", "-", " ", "N/A"]


def test_true_false_and_missing_labels_are_read_in_any_spelling(tmp_path):
    rows = [
        [f"text {number}{label}", spelled]
        for label, spellings in {**SPELLED, "": LACKING}.items()
        for number, spelled in enumerate(spellings)
    ]
    settings = settings_of(write_csv(tmp_path / "a.csv", rows), skip_incomplete=0.9)
    source = text_table.read_source(settings)
    assert source.label_names == ("0", "1")
    assert source.labels.tolist() == [1] * 5 + [0] * 5
    assert "7 without a label" in source.skipped
    with pytest.raises(UserError, match=r"line 12: category is ''; expected a label"):
        text_table.read_source(settings | {"skip_incomplete": False})
    # the labels of a second table are those of the first
    settings["test_path"] = str(write_csv(tmp_path / "b.csv", [["other", "TRUE"]]))
    assert text_table.read_source(settings).labels[-1] == 1


@pytest.mark.parametrize("missing", LACKING)
def test_the_anchor_stands_for_a_missing_negative(tmp_path, missing):
    rows = [*NEGATIVES, ["q9", "a9", "q3", missing, "x"], ["q8", "a8", missing, missing, "x"]]
    source = text_table.read_source(write_pairs(tmp_path / "a.csv", rows))
    texts = source.sentences["sentence"].to_numpy(object)[source.pairs[-2:]]
    assert texts.tolist() == [["q9", "a9", "q3", "q9"], ["q8", "a8", "q8", "q8"]]
    assert "fewer than 2 hard negatives: 2, of which 1 have none (line 7, line 8)" in (
        source.skipped
    )


@pytest.mark.parametrize(
    "labels", [["a|b", "a", "b"], ["['a', 'b']", "a", "b"], ["a;b", "b;a", "c"]]
)
def test_several_labels_in_a_cell_are_refused(tmp_path, labels):
    rows = [[f"text {number}", labels[number % 3]] for number in range(9)]
    with pytest.raises(UserError, match="category looks like several labels in a cell, such as"):
        text_table.read_source(settings_of(write_csv(tmp_path / "a.csv", rows)))


def test_texts_of_a_group_are_one_group_of_the_source(tmp_path):
    path = tmp_path / "a.csv"
    rows = [["a", "x", "1"], ["b", "x", "1.0"], ["c", "y", "2"], ["d", "y", "3"], ["e", "y", "NA"]]
    write_csv(path, rows, ("text", "category", "author"))
    settings = settings_of(path, group_column="author", skip_incomplete=0.5)
    source = text_table.read_source(settings)
    groups = source.samples.groups["groups"]
    assert [groups[0] == group for group in groups] == [True, True, False, False]
    assert "1 without a group" in source.skipped
    plain = text_table.read_source(settings | {"group_column": None})
    assert "groups" not in plain.samples.groups
    assert plain.checksum != source.checksum


def test_splits_of_the_table_are_official(tmp_path):
    path = tmp_path / "a.csv"
    rows = [["a", "x", "train"], ["b", "y", "Test"], ["c", "x", "train"], ["d", "y", "train"]]
    write_csv(path, rows, ("text", "category", "part"))
    source = text_table.read_source(settings_of(path, split_column="part"))
    assert source.samples.split.tolist() == ["train", "test", "train", "train"]
    write_csv(path, [*rows, ["e", "x", "dev"]], ("text", "category", "part"))
    source = text_table.read_source(settings_of(path, split_column="part"))
    assert source.samples.split.tolist() == ["train", "test", "train", "train", "validation"]


@pytest.mark.parametrize("restricted", [False, True])
def test_no_value_of_a_restricted_table_is_in_a_message(tmp_path, restricted):
    labels = ["secret", "hidden", "secret;hidden"] * 10
    rows = [(f"text number {number}", label) for number, label in enumerate(labels)]
    path = write_csv(tmp_path / "a.csv", rows, ("text", "category"))
    for settings in ({}, {"split_column": "category", "label_column": None}):
        with pytest.raises(UserError) as caught:
            text_table.read_source(settings_of(path, restricted=restricted, **settings))
        assert "category" in str(caught.value)
        assert ("secret" in str(caught.value)) != restricted

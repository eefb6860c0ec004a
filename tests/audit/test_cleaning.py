"""Cleaned files have the format and the order of the user's, without what is false, and with a line
for each removal.
"""

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueneg.audit import cleaning
from trueneg.cli.main import main

VECTORS = "{name: vectors, path: vectors.npy}"
LINES = [
    {"query": "Lost card?", "pos": ["Block it", "block it!"], "neg": ["Top up", "Block  it."]},
    {"query": "Pay in", "pos": ["By cash"], "neg": ["Top up", "TOP UP", "pay in!"], "id": 7},
    {"id": 8, "query": "lost card", "pos": ["Call us"], "neg": ["Block it", "Wait here"]},
    {"query": "By cash", "pos": ["by cash."], "neg": ["Wait here"]},
    {"query": "Pay in.", "pos": ["by cash"], "neg": ["top up"], "id": 9},
    {"query": "  Odd   spacing ", "pos": ["Fine with me"], "neg": []},
]
CLEANED = [
    LINES[0] | {"pos": ["Block it"], "neg": ["Top up"]},
    LINES[1] | {"neg": ["Top up"]},
    LINES[2] | {"neg": ["Wait here"]},
    LINES[5],
]
REMOVED = [
    ("line 1", "pos", "block it!", "repeats another one of its row"),
    ("line 1", "neg", "Block it.", "a positive of its row"),
    ("line 2", "neg", "TOP UP", "repeats another one of its row"),
    ("line 2", "neg", "pay in!", "equals its anchor"),
    ("line 3", "neg", "Block it", "a positive of its anchor, or the reverse, in another row"),
    ("line 4", "pos", "by cash.", "equals its anchor"),
    ("line 4", "", "By cash", "no positive is left"),
    ("line 5", "", "Pay in.", "repeats an earlier row"),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def clean(name, out, *arguments):
    assert main(["clean", name, "--out", out, *arguments]) == 0


def removals(out):
    table = pd.read_csv(f"{out}.removed.csv", keep_default_na=False)
    return list(table[["place", "column", "text", "reason"]].itertuples(index=False, name=None))


def write_lines(path, lines):
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_json_lines_are_cleaned_and_a_second_time_left_as_they_are(
    tmp_path, monkeypatch, capsys, at_once
):
    monkeypatch.setattr(cleaning, "AT_ONCE", at_once)
    write_lines(tmp_path / "texts.jsonl", LINES)
    clean("texts.jsonl", "once.jsonl")
    # rows 1, 2, 3 and 6 are left; one of these has no hard negatives
    said = "3 of 9 hard negatives are left; of 4 rows, 0 have lost all of theirs; which of these"
    assert said in capsys.readouterr().out
    once = (tmp_path / "once.jsonl").read_text()
    assert [json.loads(line) for line in once.splitlines()] == CLEANED
    assert once.splitlines()[-1] == json.dumps(LINES[-1])
    assert once.count("\n") == len(CLEANED)
    assert sorted(removals("once.jsonl")) == sorted(REMOVED)
    clean("once.jsonl", "twice.jsonl")
    assert (tmp_path / "twice.jsonl").read_text() == once
    assert removals("twice.jsonl") == []


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet"])
def test_other_formats_are_cleaned_alike(tmp_path, ending):
    table = pd.DataFrame(LINES).astype({"id": "Int64"})
    if ending == "parquet":
        texts = pa.list_(pa.string())
        schema = pa.schema(
            [("query", pa.string()), ("pos", texts), ("neg", texts), ("id", pa.int64())]
        )
        pq.write_table(pa.Table.from_pandas(table, schema), "texts.parquet")
        clean("texts.parquet", "out.parquet")
        assert pq.read_schema("out.parquet").equals(schema)
        found = pd.read_parquet("out.parquet")
        lists = {name: found[name].map(list).tolist() for name in ("pos", "neg")}
    else:
        written = table.assign(
            pos=table["pos"].map(json.dumps), neg=table["neg"].map(lambda texts: json.dumps(texts))
        ).replace({"neg": {"[]": ""}})
        separator = "\t" if ending == "tsv" else ","
        text = written.to_csv(sep=separator, index=False, lineterminator="\r\n")
        content = ("\ufeff" + text).encode()
        (tmp_path / f"texts.{ending}").write_bytes(
            gzip.compress(content) if ending.endswith("gz") else content
        )
        clean(f"texts.{ending}", f"out.{ending}")
        content = (tmp_path / f"out.{ending}").read_bytes()
        content = gzip.decompress(content) if ending.endswith("gz") else content
        lines, cleaned = text.encode().splitlines(True), content.splitlines(True)
        assert content.startswith(b"\xef\xbb\xbf")
        assert cleaned[-1] == lines[-1]
        assert all(line.endswith(b"\r\n") for line in cleaned)
        found = pd.read_csv(tmp_path / f"out.{ending}", sep=separator, keep_default_na=False)
        lists = {
            name: [json.loads(cell) if cell else [] for cell in found[name]]
            for name in ("pos", "neg")
        }
    assert found["query"].tolist() == [line["query"] for line in CLEANED]
    for name, texts in lists.items():
        assert texts == [line[name] for line in CLEANED]
    assert len(removals(f"out.{ending}")) == len(REMOVED)


def test_lines_that_are_no_rows_stay_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(cleaning, "AT_ONCE", 1)
    lines = ["sep=;", "anchor;positive;negative_1"]
    for number in range(8):
        cells = (f"question number {number}", f'"answer; ""number"" {number}"', "another text")
        lines += [";".join(cells), ""]
    content = "\r\n".join([*lines, ";;", ""])
    (tmp_path / "texts.csv").write_bytes(content.encode())
    clean("texts.csv", "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == content.encode()
    assert removals("out.csv") == []


def test_a_carriage_return_in_a_cell_stays_in_quotation_marks(tmp_path):
    header, end = "anchor,positive,negative,note\n", ',"one\rtwo"\n'
    rows = [f"a good question {n},an answer {n},an answer {n}{end}" for n in range(5)]
    (tmp_path / "texts.csv").write_bytes((header + "".join(rows)).encode())
    clean("texts.csv", "out.csv")
    expected = [f"a good question {n},an answer {n},{end}" for n in range(5)]
    assert (tmp_path / "out.csv").read_bytes() == (header + "".join(expected)).encode()


def test_what_is_removed_is_null_in_columns_that_had_none(tmp_path):
    columns = ("anchor", "positive", "negative")
    schema = pa.schema([pa.field(name, pa.string(), nullable=False) for name in columns])
    texts = [(f"a good question {n}", *[f"an answer {n}"] * 2) for n in range(9)]
    rows = [dict(zip(columns, each, strict=True)) for each in texts]
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "texts.parquet")
    clean("texts.parquet", "out.parquet")
    expected = [row | {"negative": None} for row in rows]
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == expected


def test_nulls_in_lists_are_no_texts(tmp_path):
    lines = [
        {
            "query": f"a good question {n}",
            "pos": [None, f"an answer {n}"],
            "neg": [f"an answer {n}", None],
        }
        for n in range(9)
    ]
    write_lines(tmp_path / "texts.jsonl", lines)
    clean("texts.jsonl", "out.jsonl")
    found = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert [*found] == [line | {"neg": []} for line in lines]


def test_labels_are_those_of_an_audit_in_any_case(tmp_path):
    rows = [(f"text number {n}", ["Yes", "no"][n % 2], f"text number {n + 2}") for n in range(40)]
    rows[4:8] = [(text, label.lower(), negative) for text, label, negative in rows[4:8]]
    table = pd.DataFrame(rows, columns=["text", "label", "negative_1"])
    table.to_csv("texts.csv", index=False)
    clean("texts.csv", "out.csv")
    assert len(removals("out.csv")) == 38  # the last two are of no row


@pytest.mark.parametrize("command", ["audit", "clean"])
@pytest.mark.parametrize("labels", [["a", "a;b", "b"], [["a"], ["a", "b"], ["b"]]])
def test_several_labels_in_a_cell_are_refused(tmp_path, capsys, command, labels):
    lines = [
        {"text": f"text number {n}", "label": labels[n % 3], "negative_1": f"text number {n + 1}"}
        for n in range(60)
    ]
    write_lines(tmp_path / "texts.jsonl", lines)
    out = ["--out", "out.jsonl"] if command == "clean" else []
    assert main([command, "texts.jsonl", "--label", "label", *out]) == 1
    assert "label looks like several labels in a cell" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (
            b"anchor,positive,negative\n" + b"one text,two texts,three texts\n" * 3 + b"a,b,c,d\n",
            "5",
        ),
        ("anchor;positive\n" + "one, text;two, texts, more\n" * 9, "Separate columns"),
        ("anchor,positive\ncaf\xe9 one,caf\xe9 two\n".encode("latin-1"), "UTF-8"),
    ],
)
def test_a_damaged_file_is_reported_as_by_an_audit(tmp_path, capsys, content, named):
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "texts.csv").write_bytes(content)
    assert main(["clean", "texts.csv", "--out", "out.csv"]) == 1
    said = capsys.readouterr().err
    assert main(["audit", "texts.csv"]) == 1
    assert said == capsys.readouterr().err
    assert named in said


def test_a_column_with_two_roles_is_refused(tmp_path, capsys):
    write_lines(tmp_path / "texts.jsonl", LINES)
    arguments = ("--text", "query", "--negative", "query", "--positive", "pos")
    assert main(["audit", "texts.jsonl", *arguments]) == 1
    assert "query is chosen twice, as negative and as text" in capsys.readouterr().err


def test_columns_of_one_text_become_empty_and_labelled_texts_lose_repeated_rows(tmp_path):
    rows = [
        ("question one", "answer one", "answer two", "answer three"),
        ("question two", "answer two", "answer  TWO!", "answer three"),
        ("question three", "answer three", "answer one", "answer two"),
        ("question four", "answer four", "answer three", "answer one"),
    ]
    columns = ["anchor", "positive", "negative_1", "negative_2"]
    pd.DataFrame(rows, columns=columns).to_csv("tuples.csv", index=False)
    clean("tuples.csv", "out.csv")
    found = pd.read_csv("out.csv", keep_default_na=False)
    assert found.to_numpy().tolist() == [
        [*rows[0]],
        [*rows[1][:2], "", rows[1][3]],
        *map(list, rows[2:]),
    ]
    texts = [f"text number {number}" for number in range(8)]
    labelled = pd.DataFrame(
        {"text": [*texts, "Text number 3!", texts[3]], "label": [*"aabb"] * 2 + [*"ba"]}
    )
    labelled.to_csv("labels.csv", index=False)
    clean("labels.csv", "cleaned.csv")
    pd.testing.assert_frame_equal(
        pd.read_csv("cleaned.csv"), labelled.drop(8).reset_index(drop=True)
    )


@pytest.mark.parametrize("at_once", [1, 2000])
def test_hard_negatives_with_the_label_of_their_anchor_are_removed(monkeypatch, at_once):
    monkeypatch.setattr(cleaning, "AT_ONCE", at_once)
    draw = random.Random(0)
    answers = [f"This is answer {number}." for number in range(30)]  # some have no row
    rows = [
        {
            "query": f"How about question {number}?",
            "pos": [answers[number].lower()],
            "neg": draw.sample(answers, 6),
            "label": ["red", "green", "blue", ""][number % 4],
        }
        for number in range(24)
    ]
    write_lines(Path("labels.jsonl"), rows)
    clean("labels.jsonl", "cleaned.jsonl", "--positive", "pos", "--label", "label")
    labels = dict(zip(answers, (row["label"] for row in rows), strict=False))
    lines = Path("cleaned.jsonl").read_text(encoding="utf-8").splitlines()
    for number, (row, line) in enumerate(zip(rows, lines, strict=True)):
        kept = [
            text
            for text in row["neg"]
            if text != answers[number] and not (row["label"] and labels.get(text) == row["label"])
        ]
        assert json.loads(line) == row | {"neg": kept}
    reasons = [reason for *_, reason in removals("cleaned.jsonl")]
    assert reasons.count(cleaning.SAME_LABEL) > 10


@pytest.mark.parametrize("at_once", [1, 2000])
def test_labels_of_other_rows_of_a_text_are_its_labels_too(monkeypatch, capsys, at_once):
    monkeypatch.setattr(cleaning, "AT_ONCE", at_once)
    rows = [
        {"query": f"may I ask {number}", "pos": [f"this is reply {number}"], "topic": topic}
        for number, topic in enumerate(["red", "red", "blue", "", "blue"])
    ]
    # its label is known from the first row, and it has another one, too
    again = {"query": "May I ask 0", "pos": ["another reply"], "topic": ""}
    both = {"query": "may I ask 2", "pos": ["a third reply"], "topic": "green"}
    negatives = ["this is reply 1", "this is reply 2", "this is reply 3"]
    others = ["this is reply 4", "this is reply 3"]
    write_lines(Path("rows.jsonl"), [*rows, again | {"neg": negatives}, both | {"neg": others}])
    clean("rows.jsonl", "out.jsonl", "--positive", "pos", "--label", "topic")
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert lines[-2]["neg"] == ["this is reply 2", "this is reply 3"]
    assert lines[-1]["neg"] == ["this is reply 3"]
    printed = capsys.readouterr().out
    assert "query as anchor, pos as positive, neg as negative, topic as label; not used" in printed


def test_a_block_without_usable_rows_is_copied(monkeypatch):
    monkeypatch.setattr(cleaning, "AT_ONCE", 3)
    lines = [
        f"question number {number},answer number {number},answer number {number + 1}"
        for number in range(5)
    ]
    text = "\n".join(["query,positive,negative_1", *lines, "", ""])
    Path("rows.csv").write_text(text)
    np.save("vectors.npy", np.eye(11, dtype=np.float32))
    clean("rows.csv", "out.csv", "--filter", "max_score=2", "--encoder", VECTORS)
    assert Path("out.csv").read_text() == text


def test_rows_with_several_queries_are_left_out_of_an_audit_and_copied(capsys):
    rows = [
        {"query": f"may I ask {number}", "pos": [f"this is reply {number}"], "neg": ["what else"]}
        for number in range(5)
    ]
    rows[2]["query"] = ["may I ask", "do you know"]
    rows[3]["neg"] = ["this is reply 3"]
    write_lines(Path("rows.jsonl"), rows)
    np.save("vectors.npy", np.eye(9, dtype=np.float32))
    assert main(["audit", "rows.jsonl", "--encoder", VECTORS]) == 0
    assert "left out: 1 row with several texts in query" in capsys.readouterr().out
    clean("rows.jsonl", "out.jsonl")
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert lines == [*rows[:3], rows[3] | {"neg": []}, rows[4]]


def test_hard_negatives_that_begin_late_are_refused(monkeypatch, capsys):
    monkeypatch.setattr("trueneg.cli.clean.LOOKED_AT", 3)
    rows = [
        {"query": f"may I ask {number}", "pos": [f"this is reply {number}"]} for number in range(6)
    ]
    write_lines(
        Path("rows.jsonl"), [*rows[:4], rows[4] | {"neg": ["this is reply 4"], "id": 1}, rows[5]]
    )
    assert main(["clean", "rows.jsonl", "--out", "out.jsonl"]) == 1
    said = capsys.readouterr().err
    assert "line 5 has neg, which none of the first 3 lines has" in said
    assert not Path("out.jsonl").exists()


def test_metadata_of_a_parquet_file_are_kept():
    schema = pa.schema(
        [("query", pa.string()), ("positive", pa.string())], {"huggingface": "names of classes"}
    )
    rows = [
        {"query": f"may I ask {number}", "positive": f"this is reply {number}"}
        for number in range(4)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema), "rows.parquet")
    clean("rows.parquet", "out.parquet")
    assert pq.read_schema("out.parquet").equals(schema, check_metadata=True)


def test_vectors_of_a_file_have_one_order_in_an_audit_and_in_cleaning(capsys):
    """The query of the first row, which equals its answer, occurs again in the last one."""
    rows = [("same text here", "Same text here!", "this is reply 3")]
    rows += [
        (f"question number {number}", f"this is reply {number}", f"this is reply {number - 1}")
        for number in (1, 2)
    ]
    rows += [
        (f"question number {number}", f"this is reply {number}", f"this is reply {number - 1}")
        for number in (3, 4)
    ]
    rows += [("same text here", "this is reply 5", "this is reply 4")]
    columns = ["query", "positive", "negative_1"]
    pd.DataFrame(rows, columns=columns).to_csv("rows.csv", index=False)
    # anchors, positives, negatives
    texts = [row[place].lower().rstrip("!") for place in range(3) for row in rows]
    different = list(dict.fromkeys(texts))
    values = np.random.default_rng(0).normal(size=(len(different), 6)).astype(np.float32)
    np.save("vectors.npy", values)
    unit = dict(zip(different, values / np.linalg.norm(values, axis=1, keepdims=True), strict=True))
    expected = {
        (query, negative): round(float(unit[query] @ unit[negative]), 4)
        for query, _, negative in rows
    }
    clean("rows.csv", "out.csv", "--filter", "max_score=-1", "--encoder", VECTORS)
    removed = pd.read_csv("out.csv.removed.csv")["similarity"].dropna()
    assert sorted(removed) == pytest.approx(sorted(expected.values()), abs=2e-4)
    assert main(["audit", "rows.csv", "--encoder", VECTORS]) == 0
    similar = pd.read_csv("rows_audit/most_similar_pairs.csv").set_index(["anchor", "negative"])
    del expected["same text here", "this is reply 3"]  # of the row that is left out
    assert similar["similarity"].to_dict() == pytest.approx(expected, abs=2e-4)
    capsys.readouterr()


@pytest.mark.parametrize("at_once", [7, 1000])
def test_filters_and_ratings_remove_what_they_mark(tmp_path, monkeypatch, capsys, at_once):
    monkeypatch.setattr(cleaning, "AT_ONCE", at_once)
    generator = np.random.default_rng(0)
    rows = 30
    lines = [
        {
            "query": f"question number {number}",
            "pos": [f"answer number {number}"],
            "neg": [f"answer number {(number + step) % rows}" for step in (1, 2, 3)],
        }
        for number in range(rows)
    ]
    write_lines(tmp_path / "pairs.jsonl", lines)
    values = generator.normal(size=(2 * rows, 5)).astype(np.float32) + 0.7
    np.save("vectors.npy", values)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    clean("pairs.jsonl", "near.jsonl", "--filter", "relative_margin=0.05", "--encoder", VECTORS)
    cleaned = [json.loads(line) for line in (tmp_path / "near.jsonl").read_text().splitlines()]
    for number, line in enumerate(cleaned):
        own = unit[number] @ unit[rows + number]
        places = [(number + step) % rows for step in (1, 2, 3)]
        kept = [
            place
            for place in places
            if round(float(unit[number] @ unit[rows + place]), 4) <= own - abs(own) * 0.05
        ]
        assert line["neg"] == [f"answer number {place}" for place in kept]
    similarity = (tmp_path / "near.jsonl.removed.csv").read_text().split()[-1].rpartition(",")[2]
    assert len(similarity) <= len("-0.1234")
    clean("near.jsonl", "again.jsonl", "--filter", "max_score=2", "--encoder", VECTORS)
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "near.jsonl").read_text()

    assert main(["audit", "pairs.jsonl", "--encoder", VECTORS, "--pairs", "20"]) == 0
    sample = pd.read_csv("pairs_audit/sample.csv").assign(false="n")
    sample.loc[:4, "false"] = "y"
    sample.to_csv("rated.csv", index=False)
    clean("pairs.jsonl", "rated.jsonl", "--ratings", "rated.csv")
    judged = set(sample.loc[:4, "negative"])
    found = pd.read_csv("rated.jsonl.removed.csv")
    assert set(found["text"]) == judged
    assert len(found) == 5
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--out", "texts.jsonl"], "texts.jsonl"),
        (["--out", "out.csv"], ".jsonl"),
        (["--out", "out.jsonl.gz"], ".jsonl"),
        (["--out", "out.jsonl", "--filter", "range_min=30"], "range_min=30"),
        (["--out", "out.jsonl", "--filter", "max_score=high"], "max_score=high"),
        (["--out", "out.jsonl", "--filter", "max_score=nan"], "max_score=nan"),
        (["--out", "out.jsonl", "--audit", "rated"], "--audit is given without --ratings"),
        (["--out", "out.jsonl", "--encoder", "mine"], "--encoder is given without --filter"),
        (["--out", "texts.jsonl/out.jsonl"], "choose a folder that is not below a file"),
        (["--out", "out.jsonl", "--ratings", "rated.csv"], "texts_audit"),
        (["--out", "out.jsonl", "--negative", "none"], "none"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(tmp_path, capsys, arguments, named):
    write_lines(tmp_path / "texts.jsonl", LINES)
    assert main(["clean", "texts.jsonl", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line
    assert str(tmp_path) not in line
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]

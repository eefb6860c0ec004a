"""`trueneg init` accounts for every line and column of a table, and asks what it cannot know."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.test_init import TOPICS, dataset, init, photographs, questions
from tests.data.image_layouts import write_classes
from tests.data.pictures import encoded, picture
from tests.data.test_beir import write_folder
from tests.data.test_leakage import shared_with
from trueneg.cli.main import main
from trueneg.cli.planned_data import planned_data
from trueneg.config.reading import read_configuration
from trueneg.data.pairs import image_table
from trueneg.data.tables import read_columns
from trueneg.data.texts import text_table
from trueneg.errors import UserError
from trueneg.store import data_input

MISSING = ["", "NA", "nan", "NaN", "None", "null", "NULL", "-", "N/A"]
GROUP_NAMES = ["patient", "Patient-ID", "subject_id", "docId", "USER", "Author Name", "case no"]
GROUP_NAMES += ["StudyInstanceUID", "participant.number", "report_ids", "source document"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def source_of_study():
    """Return the texts as the study's job reads them."""
    study = read_configuration(["my_study.yaml"]).studies["my_study"]
    settings_of = data_input.of_dataset(study, study.dataset.model_dump(mode="json"), {}).settings
    return text_table.read_source(settings_of)


def refused(capsys, *arguments) -> str:
    assert init(*arguments) == 1
    assert not Path("my_study.yaml").exists()
    return capsys.readouterr().err


def accepted(capsys, *arguments) -> str:
    assert init(*arguments) == 0, capsys.readouterr().err
    return capsys.readouterr().out


# Every line and every column


@st.composite
def tables(draw):
    """A table of texts with labels, and how to write it."""
    count = 230
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = questions(count).rename(columns={"topic": "label", "message": "text"})
    table["label"] = rng.choice(TOPICS[: draw(st.integers(2, 6))], count)
    if draw(st.booleans()):
        table["text"] += draw(st.sampled_from(["\nRegards, me", ' He said "no, never".', "; bye"]))
    columns = {
        "split": rng.choice(
            draw(st.sampled_from([["train", "test"], ["TRAIN", "dev", "Test"]])), count
        ),
        "score": rng.random(count).round(3),
        draw(st.sampled_from(GROUP_NAMES)): rng.integers(0, 60, count),
        "": np.arange(count),
        "tags": [["a", "b"]] * count,
        "keywords": ["['a', 'b']", "['c']"] * (count // 2),
        "same": "x",
        "nothing": "",
    }
    for name in draw(st.sets(st.sampled_from(list(columns)))):
        table[name] = columns[name]
    table = table.astype(object)
    for name in {"text", "label", "split"}.intersection(table):
        rows = rng.choice(count, draw(st.integers(0, 8)), replace=False)
        table.loc[rows, name] = rng.choice(MISSING, len(rows))
    order = draw(st.permutations(list(table)))
    kind = draw(st.sampled_from(["csv", "tsv", "sep=;", "jsonl", "parquet"]))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    return table[order], kind, quoting, draw(st.integers(0, 3))


def write(table, kind, quoting, blank) -> tuple[Path, int | None]:
    """Write a table with the csv module, pandas or Arrow; return the file and its lines."""
    if kind == "parquet":
        # columns of numbers and texts keep their types
        pq.write_table(
            pa.Table.from_pandas(table.infer_objects(), preserve_index=False), "t.parquet"
        )
        return Path("t.parquet"), None
    if kind == "jsonl":
        text = table.to_json(orient="records", lines=True) + "\n" * blank
        Path("t.jsonl").write_text(text)
        return Path("t.jsonl"), text.count("\n")
    stream = io.StringIO()
    delimiter = {"csv": ",", "tsv": "\t", "sep=;": ";"}[kind]
    writer = csv.writer(stream, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerows([list(table), *table.itertuples(index=False)])
    text = ("sep=;\n" if kind == "sep=;" else "") + stream.getvalue() + "\n" * blank
    path = Path("t.tsv" if kind == "tsv" else "t.csv")
    path.write_text(text)
    return path, text.count("\n")


def missing_to_pandas(cells) -> pd.Series:
    """Return which cells pandas takes as missing; it does not do so with a hyphen."""
    written = pd.DataFrame({"x": cells}).to_csv(index=False, quoting=csv.QUOTE_ALL)
    return pd.read_csv(io.StringIO(written), dtype=str, na_values=["-"])["x"].isna()


def account(drawn, capsys):
    """Compare what `init` says about a table with what pandas reads of it."""
    for old in Path().iterdir():
        old.unlink()
    table, kind, quoting, blank = drawn
    path, lines = write(table, kind, quoting, blank)
    capsys.readouterr()
    printed = accepted(capsys, "text", path)
    assert f"read {len(table):,} rows" in printed
    if lines is not None:
        others = re.search(r"read .* rows(?: of ([\d,]+) lines \((.*)\))?", printed)
        assert lines == int(others[1] or len(table))
        counts = re.findall(r"\d[\d,]*(?= )", others[2] or "")
        parts = [int(count.replace(",", "")) for count in counts]
        assert len(table) + sum(parts) == lines
    # columns
    used = dict(re.findall(r"^(text|label|split|group)s: (.*), such as ", printed, re.MULTILINE))
    unused = re.search(r"^not used: (.*)$", printed, re.MULTILINE)[1]
    listed = [name for name in table if f"{name or 'unnamed'} (" in unused]
    assert sorted([*used.values(), *listed]) == sorted(table)
    assert (used["text"], used["label"], used.get("split")) == (
        "text",
        "label",
        "split" if "split" in table else None,
    )
    groups = [name for name in GROUP_NAMES if name in table]
    assert [used[role] for role in used if role == "group"] == groups
    # rows
    is_missing = table[list(used.values())].apply(missing_to_pandas)
    kept = table[~is_missing.any(axis=1)]
    left_out = [
        int(n.replace(",", "")) for n in re.findall(r"^left out: ([\d,]+) row", printed, re.M)
    ]
    assert f"{len(kept):,} of {len(table):,} rows are used" in printed
    assert len(kept) + sum(left_out) == len(table)
    sizes = kept["label"].value_counts()
    said = re.search(r"labels of .* rows: (.*)$", printed, re.MULTILINE)[1]
    assert dict(part.rsplit(" ", 1) for part in said.split(", ")) == sizes.astype(str).to_dict()
    # the study's file says the same, and its job reads the same
    comments = Path("my_study.yaml").read_text()
    assert all(f"# {line}\n" in comments for line in printed.split("compared:")[0].splitlines())
    source = source_of_study()
    assert len(source.samples.label) == len(kept)
    assert source.skipped == ""
    if "split" in table:
        assert "test" in set(source.samples.split)


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(tables())
def test_each_line_and_each_column_is_accounted_for(capsys, drawn):
    account(drawn, capsys)


@pytest.mark.long
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(tables())
def test_each_line_and_each_column_of_many_tables_is_accounted_for(capsys, drawn):
    account(drawn, capsys)


# What is asked, used or refused by name


def captions(count=240) -> pd.DataFrame:
    table = questions(count).drop(columns=["topic", "id"]).rename(columns={"message": "caption"})
    return table.assign(file=[f"{number}.png" for number in range(count)])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["train", "validation", "test"], ["train", "validation", "test"]),
        (["Training", "dev", "TEST"], ["train", "validation", "test"]),
        (["0", "1", "2"], ["train", "validation", "test"]),
        (["train", "val", "train"], ["train", "test", "train"]),
    ],
)
def test_a_column_of_splits_is_used(values, words, capsys):
    table = questions().assign(split=values * 100)
    table.to_csv("questions.csv", index=False)
    assert "splits of your own" in accepted(capsys, "text", "questions.csv")
    assert dataset().split_column == "split"
    assert source_of_study().samples.split.tolist() == words * 100


def test_a_column_that_is_true_for_one_split_is_used(capsys):
    questions().assign(is_valid=[False, False, True] * 100).to_csv("questions.csv", index=False)
    accepted(capsys, "text", "questions.csv")
    assert source_of_study().samples.split.tolist() == ["train", "train", "test"] * 100


def test_splits_can_be_left_unused_and_folds_are_no_splits(capsys):
    table = questions().assign(split=["train", "test", "train"] * 100, fold=[1, 2, 3, 4, 5] * 60)
    table.to_csv("questions.csv", index=False)
    printed = accepted(capsys, "text", "questions.csv", "--split", "none")
    assert "split (a split: train 200, test 100)" in printed
    assert "fold (a score or another number, 1 to 5)" in printed
    assert dataset().split_column is None
    Path("my_study.yaml").unlink()
    message = refused(capsys, "text", "questions.csv", "--split", "fold")
    assert "fold" in message
    assert "train, test" in message


def test_pairs_keep_the_users_splits_for_every_seed(capsys):
    photographs(Path("photos"))
    splits = np.where(np.arange(240) < 180, "train", "test")
    captions().assign(set=splits, subject=np.arange(240) // 3).to_csv("table.csv", index=False)
    accepted(capsys, "pairs", "table.csv", "--images", "photos")
    assert dataset().split_column == "set"
    assert not dataset().resplit
    assert main(["check", "my_study.yaml"]) == 0
    assert "training 162" in capsys.readouterr().out  # of 180, a tenth for validation


@pytest.mark.parametrize("crossing", [1, 5])
def test_the_check_counts_views_of_one_report_in_two_splits(crossing, capsys):
    photographs(Path("photos"))
    table = captions().assign(report_id=np.arange(240) // 2, split="train")
    table.loc[[*range(60), *(100 + 2 * number for number in range(crossing))], "split"] = "test"
    table.to_csv("table.csv", index=False)
    printed = accepted(capsys, "pairs", "table.csv", "--images", "photos")
    assert f"120 groups in report_id, {crossing} of them in two splits" in printed
    shared = {"patients": (crossing, 60 + crossing)}
    assert shared_with(printed) == shared
    assert dataset().leakage == "leave_out"
    assert main(["check", "my_study.yaml"]) == 0
    assert shared_with(capsys.readouterr().out) == shared
    file = Path("my_study.yaml")
    file.write_text(file.read_text().replace('leakage: "leave_out"', "leakage: null"))
    assert main(["check", "my_study.yaml"]) == 1
    assert shared_with(capsys.readouterr().err) == shared


@pytest.mark.parametrize("decoded", [10, 2000])
def test_equal_images_with_texts_in_two_splits_are_left_out_of_training(
    decoded, monkeypatch, capsys
):
    """Of many images, files are compared, also by the check."""
    monkeypatch.setattr("trueneg.cli.init.DECODED", decoded)
    photographs(Path("photos"))
    for number in range(4):
        same = encoded(picture(100 + number), "PNG" if number < 3 else "TIFF")
        Path(f"photos/{number}.png").write_bytes(same)
    table = captions().assign(split=["test"] * 60 + ["train"] * 180)
    table.to_csv("table.csv", index=False)
    printed = accepted(capsys, "pairs", "table.csv", "--images", "photos")
    assert shared_with(printed) == {"images": (3 if decoded == 10 else 4, 60)}
    assert dataset().leakage == "leave_out"
    assert main(["check", "my_study.yaml"]) == 0
    assert shared_with(capsys.readouterr().out) == {"images": (3, 60)}
    Path("my_study.yaml").unlink()
    table.assign(split=["train"] * 180 + ["test"] * 60).to_csv("table.csv", index=False)
    assert "WARNING" not in accepted(capsys, "pairs", "table.csv", "--images", "photos")
    assert dataset().leakage is None


@pytest.mark.parametrize("name", GROUP_NAMES)
def test_groups_are_found_in_any_spelling(name, capsys):
    questions().assign(**{name: [f"x{number // 3}" for number in range(300)]}).to_csv(
        "questions.csv", index=False
    )
    assert f"100 groups in {name}" in accepted(capsys, "text", "questions.csv")
    assert dataset().group_column == name
    Path("my_study.yaml").unlink()
    photographs(Path("photos"))
    captions().assign(**{name: np.arange(240) // 3}).to_csv("table.csv", index=False)
    accepted(capsys, "pairs", "table.csv", "--images", "photos")
    assert (
        read_configuration(["my_study.yaml"]).studies["my_study_text"].reports.patient_column
        == name
    )


def test_what_the_users_splits_share_is_counted_and_left_out_of_training(capsys):
    table = questions().assign(author=[n // 3 for n in range(300)], split="train")
    table.loc[[0, 4, 5, *range(270, 300)], "split"] = "test"
    table.loc[299, "message"] = table.loc[100, "message"].upper() + " "
    table.to_csv("questions.csv", index=False)
    printed = accepted(capsys, "text", "questions.csv")
    assert "100 groups in author, 2 of them in two splits" in printed
    (warning,) = [line for line in printed.splitlines() if line.startswith("WARNING")]
    assert "1 of 33 test samples have the same texts as samples of train" in warning
    assert "3 of 33 test samples have the same groups as samples of train" in warning
    assert "left out: 4 of train" in warning  # two of author 0, and one of author 1 and of 33
    assert dataset().leakage == "leave_out"
    assert f"# {warning}" in Path("my_study.yaml").read_text()


def test_other_possible_groups_are_named_and_can_be_chosen(capsys):
    table = questions().assign(
        author=[f"a{n // 3}" for n in range(300)], user=[n // 6 for n in range(300)]
    )
    table.to_csv("questions.csv", index=False)
    assert "also possible: user; choose with --group" in accepted(capsys, "text", "questions.csv")
    for chosen, column in (("user", "user"), ("none", None)):
        Path("my_study.yaml").unlink()
        accepted(capsys, "text", "questions.csv", "--group", chosen)
        assert dataset().group_column == column


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (range(300), "one row per value"),
        (["A"] * 300, "fewer than 3 groups"),
        (["A"] * 200 + ["B", "C"] * 10 + [""] * 80, "empty in 80 rows"),
    ],
)
def test_a_column_of_one_value_per_row_or_in_all_is_no_group(values, why, capsys):
    questions().assign(patient_id=values).to_csv("questions.csv", index=False)
    assert why in accepted(capsys, "text", "questions.csv")
    assert dataset().group_column is None


def test_texts_of_a_group_are_never_in_two_splits(capsys):
    from trueneg.data.samples import SPLITS
    from trueneg.data.texts.text_splits import text_subset

    table = questions(400).assign(author=[f"a{number % 67}" for number in range(400)])
    table["answer"] = "We will help you with " + table["message"].str[9:]
    for columns in (["message", "topic", "author"], ["message", "answer", "author"]):
        table[columns].to_csv("questions.csv", index=False)
        accepted(capsys, "text", "questions.csv")
        source = source_of_study()
        for seed in range(3):
            subset = text_subset(source, dataset().model_dump(), seed)
            authors = [set(table["author"].iloc[getattr(subset, split)]) for split in SPLITS]
            assert all(authors)
            assert sum(map(len, authors)) == len(set.union(*authors))
        Path("my_study.yaml").unlink()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("label", [0, 1] * 150),
        ("is_duplicate", ["yes", "no"] * 150),
        ("score", np.linspace(0, 5, 300).round(2)),
        ("gold_label", ["entailment", "neutral", "contradiction"] * 100),
    ],
)
def test_what_a_label_or_score_beside_two_texts_means_is_asked(name, values, capsys):
    table = questions().drop(columns=["topic", "id"]).rename(columns={"message": "sentence1"})
    table = table.assign(sentence2="We help. " + table["sentence1"], **{name: values})
    table.to_csv("pairs.csv", index=False)
    asked = refused(capsys, "text", "pairs.csv", "--positive", "sentence2")
    assert f"--matches {name}=VALUE" in asked
    more = table.loc[[*range(300)] * 3].assign(
        sentence2=[f"{n} {t}" for n, t in enumerate([*table["sentence2"]] * 3)]
    )
    more.to_csv("pairs.csv", index=False)
    value = {"label": "1", "is_duplicate": "yes", "score": "2.5", "gold_label": "entailment"}[name]
    expected = more[name].ge(2.5) if name == "score" else more[name].astype(str).eq(value)
    printed = accepted(
        capsys, "text", "pairs.csv", "--positive", "sentence2", "--matches", f"{name}={value}"
    )
    assert f"left out: {(~expected).sum()} rows" in printed
    assert list(pd.read_csv(dataset().path)["sentence2"]) == list(
        more.loc[expected.to_numpy(), "sentence2"]
    )
    Path("my_study.yaml").unlink()
    Path("my_study_rows.csv").unlink()
    accepted(capsys, "text", "pairs.csv", "--positive", "sentence2", "--matches", "all")
    assert len(source_of_study().samples.split) == 900


@pytest.mark.parametrize(
    ("values", "condition", "used"),
    [
        (["no", "yes"] * 150, "contradiction=no", ["no"]),
        ([0, 1, 2] * 100, "label=0", [0]),
        ([0, 1, 2] * 100, "label=1", [1]),
        ([0, 1, 2] * 100, "label>=1", [1, 2]),
        ([1, 2, 3, 4, 5] * 60, "stars=3.5", [4, 5]),
        ([0.5, 1, 2] * 100, "score=1", [1, 2]),
    ],
)
def test_one_value_is_only_that_and_a_bound_includes_what_is_above(values, condition, used, capsys):
    name = re.split("[>=]", condition)[0]
    texts = [f"What about topic {n}?" for n in range(900)]
    table = pd.DataFrame({"question": texts, "answer": [f"We help. {text}" for text in texts]})
    table[name] = values * 3
    table.to_csv("pairs.csv", index=False)
    printed = accepted(capsys, "text", "pairs.csv", "--positive", "answer", "--matches", condition)
    expected = table[table[name].isin(used)]
    assert f"{len(expected)} of 900 rows are used" in printed
    assert ("at least" in printed) == (len(used) > 1)
    assert [*pd.read_csv(dataset().path)["answer"]] == [*expected["answer"]]


def test_splits_of_the_user_are_used_or_refused(capsys):
    table = questions()
    table["split"] = ["train set", "test set", "Training data"] * (len(table) // 3)
    table.to_csv("texts.csv", index=False)
    assert "splits of your own: train 200, test 100" in accepted(capsys, "text", "texts.csv")
    assert dataset().split_column == "split"
    Path("my_study.yaml").unlink()
    table["split"] = ["train", "test", "unused"] * (len(table) // 3)
    table.to_csv("texts.csv", index=False)
    sentence = refused(capsys, "text", "texts.csv")
    for fact in ("split seems to have splits", "unused 100", "--split none"):
        assert fact in sentence
    accepted(capsys, "text", "texts.csv", "--split", "none")
    assert dataset().split_column is None


def test_few_different_hard_negatives_are_texts(capsys):
    table = questions().assign(negative_1=[f"wrong answer {n % 30}" for n in range(300)])
    table.to_csv("texts.csv", index=False)
    assert "hard negatives: negative_1" in accepted(capsys, "text", "texts.csv")
    assert [*dataset().negative_columns] == ["negative_1"]


def test_a_null_or_a_number_in_a_list_of_texts_loses_no_column(capsys):
    rows = questions().to_dict("records")
    for place, row in enumerate(rows):
        row["neg"] = [f"wrong answer {place}", *([None, 7] if place == 4 else [])]
    Path("texts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert "hard negatives: neg" in accepted(capsys, "text", "texts.jsonl")
    Path("my_study.yaml").unlink()
    rows[5]["neg"] = [{"text": "wrong"}]
    Path("texts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    sentence = refused(capsys, "text", "texts.jsonl", "--label", "neg")
    assert "neg has values of type list, not text" in sentence


@pytest.mark.parametrize("value", ["score", "other=1", "=1", "id>=many"])
def test_a_condition_on_no_column_is_refused(value, capsys):
    table = questions().assign(answer="We help. " + questions()["message"])
    table.drop(columns="topic").to_csv("pairs.csv", index=False)
    assert f"--matches is {value}" in refused(capsys, "text", "pairs.csv", "--matches", value)


LISTED = [json.dumps, str, lambda texts: str(np.array(texts)), "jsonl", "parquet"]


@pytest.mark.parametrize("listed", LISTED)
def test_lists_of_captions_in_a_cell_are_captions_of_its_image(listed, capsys):
    photographs(Path("photos"))
    table = captions()
    lists = [[f"a white {text}", f'it\'s "{text}"', "é\n[x]"] for text in table["caption"]]
    table["caption"] = [each[: 1 + number % 3] for number, each in enumerate(lists)]
    if isinstance(listed, str):
        path = f"table.{listed}"
        write = {"jsonl": table.to_json, "parquet": table.to_parquet}[listed]
        write(path, **({"orient": "records", "lines": True} if listed == "jsonl" else {}))
    else:
        path = "table.csv"
        table.assign(caption=table["caption"].map(listed)).to_csv(path, index=False)
    printed = accepted(capsys, "pairs", path, "--images", "photos")
    assert "texts: caption" in printed
    studies = read_configuration(["my_study.yaml"]).studies
    texts = image_table.read_texts(studies["my_study_text"].reports.model_dump())
    expected = table.explode("caption")
    assert texts["report"].tolist() == expected["file"].tolist()
    assert texts["text"].tolist() == expected["caption"].tolist()


@pytest.mark.parametrize(
    ("cell", "fact"),
    [
        ("['a dog', 'two' dogs']", "it is a list"),
        ('["a dog", 3, "two dogs"]', "it is a list"),
        ('["a dog", "-"]', "without a text"),
        ('["a dog", "a dog"]', "that repeat"),
    ],
)
def test_lists_that_cannot_be_read_and_texts_in_lists_are_named_by_line(cell, fact, capsys):
    photographs(Path("photos"))
    captions().to_csv("table.csv", index=False)
    accepted(capsys, "pairs", "table.csv", "--images", "photos")
    table = captions()
    table.loc[7, "caption"] = cell
    table.to_csv("table.csv", index=False)
    reports = read_configuration(["my_study.yaml"]).studies["my_study_text"].reports.model_dump()
    with pytest.raises(UserError, match=r"line 9(, text 2)?: (caption|file) is"):
        image_table.read_texts(reports | {"skip_incomplete": False})
    if fact == "it is a list":
        with pytest.raises(UserError, match=fact):
            image_table.read_texts(reports | {"skip_incomplete": True})
    else:
        skipped = image_table.check_table(reports | {"skip_incomplete": True})
        assert f"1 of 241 rows are skipped: 1 {fact}" in skipped


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("numbers", "parquet"),
        ("numbers", "jsonl"),
        ("bytes", "parquet"),  # JSON has no bytes
        ("struct", "parquet"),
        ("struct", "jsonl"),
    ],
)
def test_columns_of_other_types_are_named_with_their_type(kind, ending, capsys):
    photographs(Path("photos"))
    table = captions()
    values = {
        "numbers": [1, 2],
        "bytes": b"\x89PNG",
        "struct": {"bytes": None, "path": "1.png"},
    }
    column, said = {
        "numbers": ("boxes", "list"),
        "bytes": ("image", "bytes"),
        "struct": ("image", "dict"),
    }[kind]
    table[column] = [values[kind]] * 240
    if ending == "parquet":
        table.to_parquet("table.parquet")
    else:
        table.to_json("table.jsonl", orient="records", lines=True)
    message = accepted(capsys, "pairs", f"table.{ending}", "--images", "photos")
    assert f"{column} ({said})" in message


def test_lines_of_query_pos_and_neg_make_a_study(capsys):
    lines = [
        {"query": text, "pos": [f"About {text}"], "neg": ["Nothing.", "It is late."][: number % 3]}
        for number, text in enumerate(questions()["message"])
    ]
    Path("pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    message = accepted(capsys, "text", "pairs.jsonl")
    assert "hard negatives: neg" in message
    assert (dataset().text_column, dataset().positive_column) == ("query", "pos")
    assert dataset().negative_columns == ["neg"]
    assert source_of_study().rows.shape[1] == 1 + 1 + 2


def test_columns_of_sentence_transformers_make_a_study(capsys):
    texts = questions()["message"]
    table = pd.DataFrame({"anchor": texts, "positive": "About " + texts})
    for place in (1, 2):
        table[f"negative_{place}"] = f"Not {place} of " + texts
    table.to_csv("triplets.csv", index=False)
    accepted(capsys, "text", "triplets.csv")
    assert (dataset().text_column, dataset().positive_column) == ("anchor", "positive")
    assert dataset().negative_columns == ["negative_1", "negative_2"]


@pytest.mark.parametrize("names", [("train", "test"), ("test",)])
def test_a_folder_of_queries_and_a_corpus_makes_a_study(names, capsys):
    numbers = range(260)
    corpus = [{"_id": f"d{n}", "text": f"Answer {n}."} for n in range(300)]
    queries = [{"_id": f"q{n}", "text": f"Question {n}?"} for n in numbers]
    qrels = {
        name: [(f"q{n}", f"d{n}", 1) for n in numbers if n % len(names) == place]
        for place, name in enumerate(names)
    }
    write_folder(Path("data"), corpus, queries, qrels)
    message = accepted(capsys, "text", "data")
    assert "260 queries with right answers in 300 texts" in message
    assert dataset().splits == ("official" if len(names) > 1 else "drawn")
    assert main(["check", "my_study.yaml"]) == 0


def test_a_folder_of_queries_and_a_corpus_takes_a_model_to_compare_and_no_columns(capsys):
    corpus = [{"_id": f"d{n}", "text": f"Answer {n}."} for n in range(300)]
    queries = [{"_id": f"q{n}", "text": f"Question {n}?"} for n in range(260)]
    write_folder(
        Path("data"), corpus, queries, {"test": [(f"q{n}", f"d{n}", 1) for n in range(260)]}
    )
    accepted(capsys, "text", "data", "--compare", "my-model", "--output", "compared.yaml")
    assert "my-model" in Path("compared.yaml").read_text()
    for options, named in (
        (["--label", "intent"], "leave out --label"),
        (["--merge-labels"], "leave out --merge-labels"),
        (["--leave-out", "unknown"], "leave out --leave-out"),
        (["--compare", "mine.npy"], "--compare is mine.npy, a file of vectors"),
    ):
        assert main(["init", "text", "data", *options]) == 1
        assert named in capsys.readouterr().err


def test_queries_without_a_right_answer_are_left_out_and_counted(capsys):
    corpus = [{"_id": f"d{n}", "text": f"Answer {n}."} for n in range(300)]
    queries = [{"_id": f"q{n}", "text": f"Question {n}?"} for n in range(1000)]
    write_folder(
        Path("data"), corpus, queries, {"test": [(f"q{n}", f"d{n}", 1) for n in range(260)]}
    )
    skipped = "740 of 1,000 rows are skipped: 740 without a right answer"
    assert skipped in accepted(capsys, "text", "data")
    assert main(["check", "my_study.yaml"]) == 0
    assert main(["audit", "data"]) == 0
    assert skipped in capsys.readouterr().out


@pytest.mark.parametrize(
    "several", ["invoices|parcels", "['invoices', 'parcels']", "invoices;parcels"]
)
def test_several_labels_in_a_cell_are_refused(several, capsys):
    table = questions()
    table.loc[::3, "topic"] = several
    table.loc[1::9, "topic"] = several.replace("invoices", "refunds")
    table.to_csv("questions.csv", index=False)
    message = refused(capsys, "text", "questions.csv")
    assert "looks like several labels" in message
    assert "topic" in message


@pytest.mark.parametrize(
    ("trues", "falses"),
    [
        (["TRUE", "true", "1", "1.0"], ["FALSE", "false", "0", "0.0"]),
        (["yes", "Yes"], ["no", "NO"]),
    ],
)
def test_spellings_of_true_and_of_missing_are_one_class_each(trues, falses, capsys):
    table = questions(480)
    for number in range(480):
        spelled = [trues, falses, MISSING][number % 3]
        table.loc[number, "topic"] = spelled[number // 3 % len(spelled)]
    table.rename(columns={"topic": "label"}).to_csv("questions.csv", index=False)
    printed = accepted(capsys, "text", "questions.csv")
    assert "2 labels of 160 to 160 rows: 1 160, 0 160" in printed
    assert "left out: 160 rows without a label" in printed
    assert source_of_study().label_names == ("0", "1")


def test_a_label_of_images_with_missing_values_is_used_and_others_are_explained(capsys):
    photographs(Path("photos"))
    table = captions().assign(
        mass=["1", "0", "NA", "nan", "yes", "-"] * 40,
        rare=["1", *["0"] * 239],
        nodule=[1, 0, 2] * 80,
    )
    table.to_csv("table.csv", index=False)
    printed = accepted(capsys, "pairs", "table.csv", "--images", "photos")
    assert dataset().label_columns == ["mass"]
    assert "nodule (a score or another number, 0 to 2)" in printed
    assert re.search(r"rare \(true or false: 0 239, 1 1; .*fewer than two", printed)


def test_a_column_of_masks_before_that_of_images_is_asked_about(capsys):
    photographs(Path("photos"))
    table = captions()
    table.insert(0, "mask", ["masks/" + name for name in table["file"]])
    table.to_csv("table.csv", index=False)
    assert "mask, file" in refused(capsys, "pairs", "table.csv", "--images", "photos")
    printed = accepted(capsys, "pairs", "table.csv", "--images", "photos", "--image", "file")
    assert "mask (names of images)" in printed


@pytest.mark.parametrize("place", ["C:\\data\\photos\\", "/home/someone/photos/", "D:/x/"])
def test_paths_of_another_machine_are_called_that(place, capsys):
    photographs(Path("photos"))
    table = captions()
    table["file"] = place + table["file"]
    table.to_csv("table.csv", index=False)
    assert "another machine's" in refused(capsys, "pairs", "table.csv", "--images", "photos")


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index"])
def test_the_number_of_the_row_is_never_a_label(name, capsys):
    table = questions()[["message"]]
    table.insert(0, name, range(300))
    table.to_csv("questions.csv", index=False)
    message = refused(capsys, "text", "questions.csv")
    assert f"{name or 'unnamed'} (an id, or the number of the row)" in message


def test_a_label_whose_texts_are_all_equal_is_left_out_by_name(capsys):
    table = questions()
    table.loc[:4, ["message", "topic"]] = ["Where is it?", "lost"]
    table.to_csv("questions.csv", index=False)
    assert "left out: 5 rows of topic lost, whose texts are all equal" in accepted(
        capsys, "text", "questions.csv"
    )


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_first_line_that_names_the_separator_is_skipped(separator, capsys):
    text = questions().to_csv(index=False, sep=separator)
    Path("questions.csv").write_text(f"sep={separator}\n{text}")
    assert "read 300 rows of 302 lines (1 naming the separator, 1 header)" in accepted(
        capsys, "text", "questions.csv"
    )
    assert len(source_of_study().samples.label) == 300


def test_quotation_marks_that_swallow_lines_are_noticed(capsys):
    lines = questions().to_csv(index=False).splitlines()
    lines[10] = lines[10].replace("Customer", '"Customer')
    lines[14] = lines[14].replace(".,", '.",')
    Path("questions.csv").write_text("\n".join(lines))
    message = refused(capsys, "text", "questions.csv")
    assert "lines 11 to 15" in message
    assert "quoted text" in message


def test_quotation_marks_that_swallow_unique_rows_between_tabs_are_noticed(capsys):
    table = questions().assign(id=range(300))[["id", "topic", "message"]]
    lines = table.to_csv(index=False, sep="\t").splitlines()
    lines[10] = lines[10].replace("\tCustomer", '\t"Customer')
    lines[14] += '"'
    Path("questions.tsv").write_text("\n".join(lines))
    assert "lines 11 to 15 are one row" in refused(capsys, "text", "questions.tsv")


def test_a_single_column_may_have_texts_of_several_lines(tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text('text\nhello\n"first line\nsecond line"\n')
    read = read_columns(path, ["text"], texts=["text"], restricted=False)
    assert read["text"].tolist() == ["hello", "first line\nsecond line"]


def test_texts_of_several_lines_are_no_swallowed_lines(capsys):
    table = questions()[["message", "topic"]]
    table["message"] = "Hello, Bob\n" + table["message"] + "\nBest, me"
    table.to_csv("questions.csv", index=False)
    assert "read 300 rows of 901 lines (1 header, 600 within quoted cells)" in accepted(
        capsys, "text", "questions.csv"
    )


def said_by_check(form, **changes) -> list[str]:
    """Return what the check says of the data of the study that `init` wrote."""
    studies = dict(read_configuration(["my_study.yaml"]).studies)
    if form == "pairs":
        words = studies["my_study_text"]
        reports = words.reports.model_copy(update=changes)
        studies["my_study_text"] = words.model_copy(update={"reports": reports})
    section = studies["my_study"].dataset.model_dump(mode="json") | changes
    planned = planned_data(studies["my_study"], studies, section, 0, Path("results"), False)
    return [planned.description, *planned.changes]


@pytest.mark.parametrize("form", ["text", "pairs"])
def test_the_check_says_what_init_said_of_lines_and_columns(form, capsys):
    photographs(Path("photos"))
    table = questions(240) if form == "text" else captions().assign(id=range(240), same="x")
    table.to_csv("table.csv", index=False)
    printed = accepted(capsys, form, "table.csv", *["--images", "photos"] * (form == "pairs"))
    first, *_ = printed.splitlines()
    unused = re.search(r"^not used: .*$", printed, re.MULTILINE)[0]
    comments = Path("my_study.yaml").read_text()
    assert f"# {first}\n" in comments
    assert f"# {unused}\n" in comments
    (line,) = [each for each in said_by_check(form) if each.startswith("table.csv: ")]
    assert line.startswith(f"table.csv: {first}; used: ")
    assert line.endswith(f"; {unused}")
    used = {"text": ["message (texts", "topic (labels: invoices 40, "]}.get(form)
    assert all(each in line for each in used or ["file (names of images)", "caption (texts"])
    (line,) = [each for each in said_by_check(form, restricted=True) if "table.csv: " in each]
    assert line == f"table.csv: {first}"


def test_the_check_counts_the_images_of_each_class(capsys):
    write_classes(Path("forests"), ("fir", "oak", "yew"), images=80)
    printed = accepted(capsys, "images", "forests")
    assert "fir 80, oak 80, yew 80" in printed
    assert "(fir 80, oak 80, yew 80)" in said_by_check("images")[0]


def test_images_in_folders_of_splits_are_counted_by_class_and_split(capsys):
    for place, count in (("seg_train/seg_train", 80), ("seg_test/seg_test", 20)):
        write_classes(Path(place), ("forest", "sea"), images=count)
    printed = accepted(capsys, "images", ".")
    assert "200 images of 2 classes" in printed
    assert "forest 100, sea 100" in printed
    assert "splits of your own: train 160, test 40" in printed
    assert dataset().test is None

"""A table has the same values in every format, and every error gives the place, the cause and a
remedy.
"""

import csv
import datetime
import gzip
import io
import json
import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.data.pictures import encoded, picture
from trueneg.data.pairs.image_table import check_table, read_image_table, read_images, user_files
from trueneg.data.table_formats import parsed_once
from trueneg.data.tables import read_columns, read_table
from trueneg.errors import UserError
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.store.data_input import of_corpora

FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".jsonl", ".ndjson", ".jsonl.gz", ".parquet")
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
SPACES = "\u00a0\u200b \ufeff"


def write_table(path: Path, columns: dict[str, list]) -> Path:
    """Write a table with the writers of Python and Arrow, in the format given by its name."""
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    if ending == "parquet":
        pq.write_table(pa.table(columns), path)
        return path
    rows, text = list(zip(*columns.values(), strict=True)), io.StringIO(newline="")
    if ending in ("jsonl", "ndjson"):
        text.writelines(
            json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n"
            for row in rows
        )
    else:
        csv.writer(text, delimiter="\t" if ending == "tsv" else ",").writerows([columns, *rows])
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def refusal(function, *arguments, **named) -> str:
    with pytest.raises(UserError) as refused:
        function(*arguments, **named)
    return str(refused.value)


@pytest.mark.parametrize("ending", FORMATS)
def test_a_table_has_the_same_values_in_every_format(tmp_path, ending):
    long = "x" * 150_000
    cells = [
        'said "no", twice',
        "two\nlines\r\nhere",
        "NA",
        None,
        long,
        " a\u2028b\x0b",
        "nan",
        COMPOSED,
        DECOMPOSED,
        "\U0001f600'",
    ]
    columns = {
        "text": cells,
        "id": [1, None, *range(2, 10)],
        "other": [0.5] * 10,
        "label": [True, None, *[False] * 8],
    }
    table = read_columns(
        write_table(tmp_path / f"table{ending}", columns), ["label", "text", "id"], texts=["text"]
    )
    assert table["text"].tolist() == ["" if cell is None else cell for cell in cells]
    assert table["id"].tolist() == ["1", "", *map(str, range(2, 10))]
    assert table["label"].tolist() == ["True", "", *["False"] * 8]
    if ending == ".parquet":
        places = [f"row {number} (the first is 0)" for number in range(10)]
    elif "json" in ending:
        places = [f"line {number}" for number in range(1, 11)]
    else:  # the header is line 1; the second row has three lines
        places = [f"line {number}" for number in (2, 3, *range(6, 14))]
    assert table.index.tolist() == places


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "mixed"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_line_ends_and_encodings_with_a_mark_do_not_matter(tmp_path, ends, encoding, ending):
    texts = [f"caf\u00e9 {number}" for number in range(4)]
    lines = ["text,id", *(f"{text},{text}" for text in texts)]
    if ending == ".jsonl":
        lines = [
            "",
            *(json.dumps({"text": text, "id": text}, ensure_ascii=False) for text in texts),
        ]
    cycle = ["\n", "\r\n", "\r", "\n", "\r\n"] if ends == "mixed" else [ends] * 5
    content = "".join(line + end for line, end in zip(lines, cycle, strict=True))
    (tmp_path / f"t{ending}").write_bytes(content.encode(encoding))
    table = read_columns(tmp_path / f"t{ending}", ["text", "id"])
    assert table.to_dict("list") == {"text": texts, "id": texts}
    assert table.index.tolist() == ["line 2", "line 3", "line 4", "line 5"]


def test_columns_are_matched_by_normal_form_and_without_surrounding_spaces(tmp_path):
    (tmp_path / "t.csv").write_text(f"{SPACES}{DECOMPOSED} ,rest\n1,2\n", encoding="utf-8")
    assert read_columns(tmp_path / "t.csv", [COMPOSED])[COMPOSED].tolist() == ["1"]
    (tmp_path / "t.csv").write_text(f"{DECOMPOSED},{COMPOSED}\n1,2\n", encoding="utf-8")
    assert "exactly one column" in refusal(read_columns, tmp_path / "t.csv", [COMPOSED])


def test_types_become_text_as_in_a_csv_file(tmp_path):
    values = {
        "date": (datetime.date(2024, 1, 2), "2024-01-02"),
        "midnight": (datetime.datetime(2024, 1, 2), "2024-01-02"),
        "time": (datetime.datetime(2024, 1, 2, 3, 4, 5), "2024-01-02 03:04:05"),
        "decimal": (Decimal("1.50"), "1.50"),
        "float": (0.1, "0.1"),
        "large": (10**17, "1" + 17 * "0"),
        "bool": (True, "True"),
    }
    columns = {name: [value, None] for name, (value, _) in values.items()} | {
        "nothing": pa.nulls(2)
    }
    table = read_columns(write_table(tmp_path / "t.parquet", columns), list(columns))
    assert table.iloc[0].to_dict() == {name: text for name, (_, text) in values.items()} | {
        "nothing": ""
    }
    assert set(table.iloc[1]) == {""}
    dictionary = {
        "id": pa.array(["a", None, "a"]).dictionary_encode(),
        "text": pa.array(["x"] * 3, pa.large_string()),
    }
    assert read_columns(write_table(tmp_path / "t.parquet", dictionary), ["id"])["id"].tolist() == [
        "a",
        "",
        "a",
    ]


REFUSED = {  # content of a file, and facts of the message
    "latin.csv": (
        "text,id\nok,1\ncaf\u00e9 noir,2\n".encode("latin-1"),
        ["line 3", "UTF-8", "Export"],
    ),
    "cyrillic.csv": (
        "text,id\r\nok,1\r\n\u043e\u0442\u0451\u043a,2\r\n".encode("cp1251"),
        ["line 3", "UTF-8"],
    ),
    "gbk.csv": ("text,id\r\u80ba\u90e8\u6e05\u6670,2\r".encode("gb18030"), ["line 2", "UTF-8"]),
    "mixed.csv": (
        "text,id\nna\u00efve,1\n".encode() + b"\xc3\xa9\xc3\xa9 caf\xe9,2\n",
        ["line 3", "correct damaged"],
    ),
    "header.csv": ("t\u00e9xt,id\nok,1\n".encode("latin-1"), ["line 1", "UTF-8"]),
    "mark.csv": (
        "text,id\nok,1\n".encode("utf-16-le"),
        ["line 1", "null", "UTF-16 with a byte-order mark"],
    ),
    "mark.jsonl": (
        '{"text": "ok", "id": 1}'.encode("utf-16-be"),
        ["line 1", "null", "UTF-16 with a byte-order mark"],
    ),
    "wide.csv": (
        "text,id\nok,1\n".encode("utf-32"),
        ["line 1", "null", "UTF-16 with a byte-order mark"],
    ),
    "null.csv": (b"text,id\nok,1\nno\0thing,2\n", ["line 3", "null"]),
    "excel.csv": (b"PK\3\4\n\0rest", ["line 2", "expected text", "Export"]),
    "semicolons.csv": (
        b"text;id\nok;1\n",
        ["exactly one column", "text, id", "found text;id", "commas (.csv)"],
    ),
    "tabs.csv": (b"text\tid\nok\t1\n", ["exactly one column", "commas (.csv)", "tabs (.tsv)"]),
    "commas.tsv": (b"text,id\nok,1\n", ["exactly one column", "commas (.csv)", "tabs (.tsv)"]),
    "open.csv": (b'text,id\nok,1\n"no,2\nok,3\n', ["line 3", "quotation marks", "Close"]),
    "inner.csv": (b'text,id\nok,1\n"a "b" c",2\n', ["line 3", "quotation marks", "double"]),
    "fields.csv": (
        b"text,id\nok,1\na,b,2\n",
        ["line 3", "3 fields", "expected 2", "quotation marks"],
    ),
    "trailing.csv": (b"text,id\nok,1,\n", ["line 2", "3 fields", "expected 2", "end no line"]),
    "array.jsonl": (
        b'[{"text": "ok", "id": 1}]\n',
        ["line 1", "it is a list", "one object per line"],
    ),
    "pretty.jsonl": (
        b'{\n "text": "ok"\n}\n',
        ["line 1", "not a JSON object", "one object per line"],
    ),
    "cut.jsonl": (b'{"text": "ok", "id": 1}\n{"text": "o', ["line 2", "not a JSON object"]),
    "twice.jsonl": (
        b'{"text": "ok", "id": 1}\n{"text": "a", "id": 2, "text": "b"}\n',
        ["line 2", "same key twice"],
    ),
    "nested.jsonl": (
        b'{"text": "ok", "id": 1}\n{"text": [1], "id": {"a": 1}}\n',
        ["line 2: text", "list", "2: id", "dict"],
    ),
    "number.jsonl": (
        b'{"text": 12, "id": 1}\n',
        ["line 1: text is not text but int", "save it as text"],
    ),
    "half.jsonl": (rb'{"text": "\ud83d", "id": 1}', ["line 1: text", "half a character"]),
    "deep.jsonl": (b'{"text": ' + b"[" * 100_000, ["line 1", "not a JSON object"]),
    "bytes.jsonl": (b'{"text": "caf\xe9 au lait", "id": 1}', ["line 1", "UTF-8"]),
    "empty.csv": (b"", ["exactly one column", "found none"]),
    "empty.jsonl": (b"", ["exactly one column", "found none"]),
    "table.xlsx": (b"PK\3\4", ["format", ".csv", ".parquet", "Convert"]),
}


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_damage_is_named_with_its_place_cause_and_remedy(tmp_path, name, restricted):
    content, facts = REFUSED[name]
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        message = refusal(read_columns, path, ["text", "id"], texts=["text"], restricted=restricted)
        assert message.startswith(str(path))
        facts = [fact for fact in facts if not (restricted and "found" in fact)]
        assert all(fact in message for fact in facts), message
        message.encode()  # can be printed
        assert "must be UTF-8" not in message


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_file_is_parsed_once_in_a_block_whatever_columns_are_read(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    separator = "\t" if ending == "tsv" else ","

    def write(second):
        rows = [("a", "b"), ("1", second), ("", ""), ("3", second)]
        lines = [separator.join(row) if any(row) else "" for row in rows]
        if ending == "jsonl":
            lines = [json.dumps({"a": row[0], "b": row[1]}) if any(row) else "" for row in rows[1:]]
        path.write_text("\n".join(lines) + "\n")

    write("before")
    with parsed_once():
        assert read_columns(path, ["a"])["a"].tolist() == ["1", "3"]
        write("after")
        whole = read_table(path, None)
        assert whole.cells["b"].tolist() == ["before", "before"]
        assert whole.lines["blank"] == 1
        with pytest.raises(UserError, match="exactly one column for each name: c"):
            read_columns(path, ["c"])
    assert read_columns(path, ["b"])["b"].tolist() == ["after", "after"]


def test_types_that_are_not_text_are_refused(tmp_path):
    for values, kind in (([b"a"], "bytes"), ([["a"]], "list"), ([{"a": 1}], "dict")):
        write_table(tmp_path / "t.parquet", {"text": ["ok"], "id": values})
        assert f"row 0 (the first is 0): id is not text but {kind}" in refusal(
            read_columns, tmp_path / "t.parquet", ["text", "id"]
        )


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path):
    (tmp_path / "t.csv").mkdir()
    assert "is not a file" in refusal(read_columns, tmp_path / "t.csv", ["text"])
    assert "does not exist" in refusal(read_columns, tmp_path / "none.csv", ["text"])


def test_without_a_header_values_of_restricted_tables_are_not_shown(tmp_path):
    (tmp_path / "t.csv").write_text("1.png,Secret diagnosis\n2.png,Other\n")
    assert "Secret" not in refusal(read_columns, tmp_path / "t.csv", ["image"], restricted=True)
    assert "Secret" in refusal(read_columns, tmp_path / "t.csv", ["image"])


SETTINGS = {
    "source": "image_table",
    "images": None,
    "image_column": "image",
    "text_column": "text",
    "patient_column": "patient",
}
SETTINGS |= {
    "label_columns": ["mass"],
    "colour": False,
    "restricted": False,
    "split_sentences": True,
}


def settings_of(folder: Path, table: Path, **changes) -> dict:
    (folder / "images").mkdir(exist_ok=True)
    return SETTINGS | {"path": folder / "images", "table": table} | changes


def add_images(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(picture(0)))


@pytest.mark.parametrize("ending", FORMATS)
def test_labels_ids_and_missing_values_mean_the_same_in_every_format(tmp_path, ending):
    add_images(tmp_path, *(f"{number}.png" for number in range(6)))
    columns = {"image": [f"{number}.png" for number in range(6)], "text": ["A mass."] * 6}
    expected = {"1": [1.0, 0.0, None, 1.0, 0.0, None]}
    for labels, patients in (
        ([1, 0, None, 1, 0, None], [1, 1, 2, 2, 3, 3]),
        ([1.0, 0.0, float("nan"), 1.0, 0.0, None], [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]),
        ([True, False, None, True, False, None], ["1", "1.0", " 2", "2\u00a0", "3", "\u200b3.00"]),
        (["TRUE", "false", "", "1.0", "0.00", None], ["1", "1", "2", "2", "3", "3"]),
        (["yes", "No", "NA", "Yes", "no", "-"], ["1", "1", "2", "2", "3", "3"]),
        (["true", "FALSE", "nan", "1", "0", "None"], ["1", "1", "2", "2", "3", "3"]),
    ):
        labels = [
            "" if label != label and ending[1:4] in ("csv", "tsv") else label for label in labels
        ]
        table = write_table(
            tmp_path / f"t{ending}", columns | {"mass": labels, "patient": patients}
        )
        texts, read, _ = read_image_table(settings_of(tmp_path, table))
        assert [None if label != label else label for label in read["mass"].tolist()] == expected[
            "1"
        ]
        assert texts["patient"].tolist() == ["1", "1", "2", "2", "3", "3"]


@pytest.mark.parametrize("label", ["-1", "cat", "unknown", "2", "0.5"])
def test_other_labels_are_refused_with_what_is_expected(tmp_path, label):
    add_images(tmp_path, "1.png")
    table = write_table(
        tmp_path / "t.csv",
        {"image": ["1.png"], "text": ["A mass."], "patient": [1], "mass": [label]},
    )
    for change in ({}, {"skip_incomplete": 0.9}):
        message = refusal(read_image_table, settings_of(tmp_path, table, **change))
        assert all(
            fact in message
            for fact in (
                "t.csv: line 2: mass is",
                repr(label),
                "1, 0, or empty",
                "true",
                "one column per class",
            )
        )


def test_one_patient_in_two_spellings_is_one_patient_and_leading_zeros_are_kept(tmp_path):
    add_images(tmp_path, *"abcdef")
    patients = [COMPOSED, DECOMPOSED, f"{SPACES}{COMPOSED}{SPACES}", "007", "7", "7.0"]
    table = write_table(
        tmp_path / "t.csv", {"image": [*"abcdef"], "text": ["A mass."] * 6, "patient": patients}
    )
    texts, _, _ = read_image_table(settings_of(tmp_path, table, label_columns=[]))
    assert texts["patient"].tolist() == [COMPOSED] * 3 + ["007", "7", "7"]


@pytest.mark.parametrize("ending", FORMATS)
def test_ids_that_were_rounded_are_refused(tmp_path, ending):
    """Two ids of 18 digits become equal as floats, so two patients would count as one."""
    add_images(tmp_path, "a", "b")

    def patients_or_error(patients, **change):
        columns = {"image": ["a", "b"], "text": ["A mass."] * 2, "patient": patients}
        settings = settings_of(
            tmp_path, write_table(tmp_path / f"t{ending}", columns), label_columns=[], **change
        )
        try:
            return read_image_table(settings)[0]["patient"].tolist()
        except UserError as error:
            return str(error)

    assert "rounded" in patients_or_error([float(100000000000000001), float(100000000000000002)])
    # equal, and written without an exponent
    assert "rounded" in patients_or_error([float(2**53), float(2**53 + 1)])
    assert patients_or_error([10**17 + 1, 10**17 + 2]) == [
        "100000000000000001",
        "100000000000000002",
    ]
    message = patients_or_error(["1.00E+17", "b"], restricted=True)
    assert "rounded" in message
    assert "E+17" not in message


@pytest.mark.parametrize(("on_disk", "in_table"), [(DECOMPOSED, COMPOSED), (COMPOSED, DECOMPOSED)])
def test_names_of_images_are_matched_by_normal_form(tmp_path, on_disk, in_table):
    name = f"{on_disk}/{on_disk}.png"
    add_images(tmp_path, name, "1.png")
    table = write_table(
        tmp_path / "t.csv",
        {"image": [f"{in_table}/{in_table}.png", "1.png"], "text": ["A mass."] * 2},
    )
    settings = settings_of(tmp_path, table, patient_column=None, label_columns=[])
    texts, _, _ = read_image_table(settings)
    assert texts["report"].tolist() == [f"{COMPOSED}/{COMPOSED}.png", "1.png"]
    images = read_images(settings, {"sentences": texts}, 1)
    assert list(images.images.read()) == [encoded(picture(0))] * 2
    assert user_files(settings).images == [
        tmp_path / "images" / name,
        tmp_path / "images" / "1.png",
    ]


def test_two_files_that_differ_only_in_normal_form_are_refused(tmp_path):
    add_images(tmp_path, f"{COMPOSED}.png", f"{DECOMPOSED}.png")
    if len(list((tmp_path / "images").iterdir())) == 1:
        pytest.skip("this file system knows only one form")
    table = write_table(tmp_path / "t.csv", {"image": [f"{COMPOSED}.png"], "text": ["A mass."]})
    for change in ({}, {"skip_incomplete": 0.9}):
        message = refusal(
            read_image_table,
            settings_of(tmp_path, table, patient_column=None, label_columns=[], **change),
        )
        assert all(fact in message for fact in ("line 2: image is", "Unicode form", "rename"))


def test_spellings_of_a_path_name_the_same_image(tmp_path):
    add_images(tmp_path, "a/1.png", r"odd\name.png")
    folder = (tmp_path / "images").absolute()
    for spelling in (
        "a/1.png",
        "./a//1.png",
        r"a\1.png",
        r".\a\1.png",
        "b/../a/1.png",
        f"{folder}/a/1.png",
        f"{SPACES}a/1.png ",
    ):
        table = write_table(
            tmp_path / "t.csv", {"image": [spelling, r"odd\name.png"], "text": ["A mass."] * 2}
        )
        settings = settings_of(tmp_path, table, patient_column=None, label_columns=[])
        assert read_image_table(settings)[0]["report"].tolist() == ["a/1.png", r"odd\name.png"]
        assert user_files(settings).images == [folder / "a/1.png", folder / r"odd\name.png"]
    table = write_table(
        tmp_path / "t.csv", {"image": ["a/1.png", r".\a\1.png"], "text": ["A mass."] * 2}
    )
    assert "line 3: image is 'a/1.png'; expected each image" in refusal(
        read_image_table, settings | {"table": table}
    )


@pytest.mark.parametrize(
    "name", ["../1.png", "a/../../1.png", "/1.png", r"C:\data\1.png", r"..\1.png", ".."]
)
def test_paths_that_leave_the_folder_are_refused(tmp_path, name):
    (tmp_path / "1.png").write_bytes(encoded(picture(0)))
    table = write_table(tmp_path / "t.csv", {"image": [name], "text": ["A mass."]})
    message = refusal(
        read_image_table, settings_of(tmp_path, table, patient_column=None, label_columns=[])
    )
    assert all(fact in message for fact in ("line 2: image is", "an image in", "reports.path"))


def test_a_repeated_row_with_another_patient_is_refused_also_if_repeated_rows_are_skipped(tmp_path):
    add_images(tmp_path, "1.png")
    table = write_table(
        tmp_path / "t.csv",
        {"image": ["1.png"] * 2, "text": ["A mass.", " A mass. "], "patient": [1, 2]},
    )
    message = refusal(
        read_image_table, settings_of(tmp_path, table, label_columns=[], skip_incomplete=0.9)
    )
    assert "line 3: patient differs" in message


def test_folders_that_cannot_be_listed_have_no_images(tmp_path):
    add_images(tmp_path, "a/1.png")
    (tmp_path / "images/circle").symlink_to("circle")
    table = write_table(
        tmp_path / "t.csv",
        {"image": ["circle/1.png", "circle", "a/1.png/2.png"], "text": ["A mass."] * 3},
    )
    settings = settings_of(
        tmp_path, table, patient_column=None, label_columns=[], skip_incomplete=3
    )
    assert "3 of 3 rows are skipped: 3 whose image is not in the folder" in refusal(
        read_image_table, settings
    )
    user_files(settings)


@pytest.mark.parametrize(
    "name", ["a" * 5000, "a/" * 3000, "sub", ".", "1.png/", "x\u0000y", "*?<>|"]
)
def test_odd_names_of_images_are_errors_of_the_user(tmp_path, name):
    add_images(tmp_path, "sub/1.png")
    table = write_table(tmp_path / "t.csv", {"image": [name], "text": ["A mass."]})
    settings = settings_of(tmp_path, table, patient_column=None, label_columns=[])
    assert "line 2" in refusal(read_image_table, settings)
    user_files(settings)


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    add_images(tmp_path, "1.png")
    table = write_table(tmp_path / "t.csv", {"image": ["1.png"], "text": ["A mass."], "id": [1]})
    settings = settings_of(
        tmp_path, Path("~/t.csv"), path="~/images", patient_column=None, label_columns=[]
    )
    assert read_image_table(settings)[0]["report"].tolist() == ["1.png"]
    assert user_files(settings).files == [table]


def test_jobs_do_not_depend_on_skip_incomplete_unless_it_is_set():
    def settings_with(**reports):
        reports = {"source": "image_table", "path": "images", "table": "t.csv"} | reports
        study = {
            "kind": "likelihood",
            "title": "Texts",
            "reports": reports,
            "language_models": {"BERT": {}},
        }
        (corpus,) = of_corpora("texts", LikelihoodStudy.model_validate(study)).values()
        return corpus.settings

    assert "skip_incomplete" not in settings_with()
    assert settings_with(skip_incomplete=False) == settings_with()
    assert settings_with(skip_incomplete=0.2)["skip_incomplete"] == 0.2


def test_20_000_rows_are_checked_in_seconds(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    content = encoded(picture(0))
    (folder / "0.png").write_bytes(content)
    names = [f"{number}.png" for number in range(20_000)]
    for name in names[1:]:
        (folder / name).hardlink_to(folder / "0.png")
    columns = {"image": names, "text": ["There is a mass in the left lung."] * 20_000}
    columns |= {
        "patient": [number // 4 for number in range(20_000)],
        "mass": [number % 2 for number in range(20_000)],
    }
    table = write_table(tmp_path / "t.csv", columns)
    begin = time.process_time()
    assert check_table(settings_of(tmp_path, table)) == ""
    assert time.process_time() - begin < 5


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
CELLS |= st.sampled_from(
    [
        '"',
        '""',
        ",",
        "\t",
        "\r",
        "\n",
        "\r\n",
        "NA",
        "nan",
        "None",
        "null",
        "1.0",
        "true",
        " ",
        "x" * 200,
    ]
)
ROWS = st.lists(
    st.tuples(CELLS, CELLS, st.none() | st.integers() | st.booleans() | CELLS),
    min_size=1,
    max_size=8,
)


@given(
    ROWS,
    st.sampled_from(FORMATS),
    st.sampled_from(["id", COMPOSED, DECOMPOSED, "a.b", 'q"', "x,y;z"]),
)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_cell_of_every_row_is_read_unchanged(tmp_path, rows, ending, name):
    first, second, third = (list(column) for column in zip(*rows, strict=True))
    if ending == ".parquet":  # a column has one type
        third = [None if value is None else str(value) for value in third]
    path = write_table(tmp_path / f"t{ending}", {"text": first, name: second, "third": third})
    table = read_columns(path, ["third", "text", name], texts=["text"])
    assert table["text"].tolist() == first
    assert table[name].tolist() == second
    assert table["third"].tolist() == ["" if value is None else str(value) for value in third]


ENDINGS = st.sampled_from([".csv", ".tsv", ".jsonl", ".csv.gz", ".parquet"])


@given(st.binary(max_size=60), st.integers(0, 80), ENDINGS, st.booleans())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_table_is_read_or_refused_without_its_values(
    tmp_path, damage, position, ending, removes
):
    secret = "Zxq7"
    columns = {
        "text": [f"{secret} {number}" for number in range(4)],
        "id": [f"{secret}{number}" for number in range(4)],
    }
    path = write_table(tmp_path / f"t{ending}", columns)
    content = path.read_bytes()
    position %= len(content)
    path.write_bytes(content[:position] + damage + content[position + removes * len(damage) :])
    table, message = None, ""
    try:
        table = read_columns(path, ["text", "id"], texts=["text"], restricted=True)
    except UserError as error:
        message = str(error)
    message.encode()  # can be printed
    assert secret not in message
    assert message.startswith(str(path)) is (table is None)
    if table is not None:
        "".join(table["text"] + table["id"]).encode()

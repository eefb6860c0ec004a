"""A user's table and folder of images become a source; errors name the file and the line."""

import csv
import json
import math
import os
import re
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.data.pictures import write_picture
from trueneg.data import image_cache
from trueneg.data.image_cache import decode_square
from trueneg.data.pairs import registry
from trueneg.data.pairs.image_table import check_table, read_image_table, read_images, read_texts
from trueneg.data.pairs.pair_source import beside, read_pairs
from trueneg.data.pairs.pair_splits import pair_subset
from trueneg.data.pairs.registry import prepare_pairs, write_captions
from trueneg.errors import UserError
from trueneg.io import privacy

SETTINGS = {
    "source": "image_table",
    "images": None,
    "image_column": "image",
    "text_column": "text",
    "patient_column": "patient",
    "label_columns": ["edema", "mass"],
    "colour": False,
    "resolution": 16,
    "restricted": False,
    "split_sentences": True,
}
HEADER = ["image", "text", "patient", "edema", "mass", "remark"]
ROWS = [
    ["a/1.png", "Heart size is normal. No edema.", "7", "0", "", "x"],
    ["a/2.jpg", 'Said "edema", is\nedema.', "7", "1", "0", ""],
    ["3.png", "A mass.", "8", "", "1", ""],
    ["a/1.png", "No change", "7", "0", "", "y"],
]


def write_csv(path, rows, header=HEADER):
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])


@pytest.fixture
def data(tmp_path):
    for seed, name in enumerate(["a/1.png", "a/2.jpg", "3.png"]):
        write_picture(tmp_path / "images" / name, seed)
    write_csv(tmp_path / "table.csv", ROWS)
    return tmp_path


def settings_of(folder, **changes):
    return SETTINGS | {"path": folder / "images", "table": folder / "table.csv"} | changes


def prepare(folder, **changes):
    settings = settings_of(folder, **changes)
    write_captions(
        settings,
        sentences=folder / "sentences.parquet",
        unique=folder / "unique.parquet",
        cache=folder / "split",
    )
    text = {"sentences": folder / "sentences.parquet"}
    prepare_pairs(settings, text, folder / "pairs.npz", cache=folder / "cache", threads=1)
    return read_pairs(folder / "pairs.npz")


def said(source):
    return source.sentences.groupby("report", sort=False)["sentence"].agg(list).to_dict()


def test_a_table_becomes_a_source(data):
    source = prepare(data)
    assert source.name == "image_table"
    assert source.reports.tolist() == ["a/1.png", "a/2.jpg", "3.png"]
    assert source.patients.tolist() == ["7", "7", "8"]
    assert source.label_names == ("edema", "mass")
    np.testing.assert_array_equal(
        source.labels, np.array([[0, np.nan], [1, 0], [np.nan, 1]], np.float32)
    )
    assert said(source) == {
        "a/1.png": ["Heart size is normal.", "No edema.", "No change"],
        "a/2.jpg": ['Said "edema", is edema.'],
        "3.png": ["A mass."],
    }
    for name, pixels in zip(source.reports, source.images, strict=True):
        np.testing.assert_array_equal(
            pixels, decode_square((data / "images" / name).read_bytes(), "L", 16)
        )
    assert source.shown.shape == (3, 0)
    assert not source.class_probabilities


def test_captions_are_not_split_and_photographs_keep_their_colours(data):
    source = prepare(data, split_sentences=False, colour=True)
    assert said(source)["a/1.png"] == ["Heart size is normal. No edema.", "No change"]
    assert source.images.shape == (3, 3, 16, 16)
    assert source.sentences["index"].tolist() == [0, 0, 0, 1]  # in the order of the rows
    table = privacy.read_table(data / "sentences.parquet")[0]
    assert table.columns.tolist() == ["report", "patient", "index", "sentence", "marked"]


def test_patients_and_labels_may_be_unknown(data):
    source = prepare(data, patient_column=None, label_columns=[])
    assert source.patients.tolist() == source.reports.tolist()
    assert source.labels.shape == (3, 0)


def test_parquet_and_compressed_csv_give_the_same_source(data):
    expected = prepare(data).checksum
    frame = pd.DataFrame(ROWS, columns=HEADER)
    numbers = frame.assign(
        patient=frame["patient"].astype(int),
        edema=frame["edema"].replace("", None).astype(float),
        mass=pd.array([None, False, True, None], "boolean"),
    )
    numbers.to_parquet(data / "table.parquet")
    assert prepare(data, table=data / "table.parquet").checksum == expected
    frame.to_csv(data / "table.csv.gz", index=False)
    assert prepare(data, table=data / "table.csv.gz").checksum == expected
    frame.to_csv(data / "bom.csv", index=False, encoding="utf-8-sig")
    assert prepare(data, table=data / "bom.csv").checksum == expected


@pytest.mark.parametrize("caption", ["\u200c", "\u200d", "\u00ad", "\u202e", "\u0301 \u200d"])
def test_captions_without_a_visible_character_are_named_or_skipped(data, caption):
    write_csv(data / "table.csv", [*ROWS, ["3.png", caption, "8", "", "1", ""]])
    settings = settings_of(data, split_sentences=False, label_columns=[])
    with pytest.raises(UserError, match=r"table\.csv: line 7: .* is .*; expected a non-empty text"):
        check_table(settings)
    assert "1 of 5 rows" in check_table(settings | {"skip_incomplete": 0.2})
    assert "1 without a text" in check_table(settings | {"skip_incomplete": 1})


def test_incomplete_rows_are_skipped_and_counted_on_request(data, caplog, capsys):
    expected = prepare(data).checksum
    wrong = [
        ["", "A mass."],
        ["3.png", " "],
        ["3.png", "..."],
        ["none.png", "A mass."],
        ["3.png", "A mass."],
    ]
    rows = [*([*row, "8", "", "1", ""] for row in wrong), ["3.png", "A mass.", "", "", "1", ""]]
    write_csv(data / "table.csv", [*ROWS, *rows])
    facts = [
        "table.csv",
        "6 of 10 rows",
        "1 without an image",
        "2 without a text",
        "1 without a patient",
        "1 whose image is not in the folder",
        "1 that",
    ]
    skipping = settings_of(data, skip_incomplete=6)
    caplog.clear()
    read_texts(skipping)
    (logged,) = caplog.messages
    assert all(fact in logged for fact in facts)
    assert all(fact in check_table(skipping | {"label_columns": []}) for fact in facts[1:])
    assert prepare(data, skip_incomplete=0.6).checksum == expected
    skipped = read_images(skipping, {"sentences": pd.DataFrame({"report": ["3.png"]})}, 1).skipped
    assert "table.csv" not in skipped
    assert all(fact in skipped for fact in facts[1:])
    assert capsys.readouterr() == ("", "")  # a second copy would be in the log of a cluster's job
    with pytest.raises(UserError, match=r"table\.csv: line 7: image is ''"):
        prepare(data)
    with pytest.raises(UserError, match=r"6 of 10 rows.*at most 1\b"):
        check_table(settings_of(data, skip_incomplete=True))
    write_csv(data / "table.csv", rows[:3])
    with pytest.raises(UserError, match="3 of 3 rows"):
        prepare(data, skip_incomplete=True)


def test_complete_or_missing_tables_are_not_mentioned(data, caplog):
    settings = settings_of(data, skip_incomplete=True)
    read_texts(settings)
    assert not caplog.messages
    assert (
        check_table(settings | {"label_columns": []})
        == check_table(settings | {"table": data / "none.csv"})
        == ""
    )


def test_columns_may_have_other_names(data):
    expected = prepare(data).checksum
    write_csv(data / "table.csv", ROWS, ["file", "caption", "group", "edema", "mass", "remark"])
    assert (
        prepare(data, image_column="file", text_column="caption", patient_column="group").checksum
        == expected
    )


def test_only_the_owner_can_read_restricted_data(data):
    assert prepare(data, restricted=True).restricted
    written = [
        "pairs.npz",
        "pairs.parquet",
        "sentences.parquet",
        "unique.parquet",
        "cache/values.npy",
        "cache/progress.json",
    ]
    for name in written:
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600, name
    text = {"sentences": data / "sentences.parquet"}
    with pytest.raises(
        UserError,
        match=r"sentences\.parquet: restricted is True for these texts, but False for the images",
    ):
        prepare_pairs(settings_of(data), text, data / "pairs.npz", cache=data / "cache", threads=1)


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (2, 0, "", r"table\.csv: line 5: image is ''; expected an image's file name"),
        (
            2,
            0,
            "4.png",
            (
                r"line 5: image is '4\.png'; expected an image in .*images; copy it there, or"
                r" correct reports\.path"
            ),
        ),
        (2, 1, " ", r"line 5: text is ''; expected a text with a word"),
        (2, 1, "12", r"line 5: text is '12'; expected a text with a word"),
        (2, 2, "", r"line 5: patient is ''; expected a patient or group"),
        (2, 3, "2", r"line 5: edema is '2'; expected 1, 0, or empty if unknown"),
        (2, 3, "-1", r"line 5: edema is '-1'; expected 1, 0, or empty"),
        (
            3,
            1,
            ROWS[0][1],
            r"line 6: image is 'a/1\.png'; expected each image–text pair once.* earlier row",
        ),
        (3, 2, "8", r"line 6: patient differs from .* the first row of the image"),
        (3, 3, "", r"line 6: edema differs from .* the first row of the image"),
    ],
)
def test_an_invalid_row_is_named(data, row, column, value, message):
    """The second row spans two lines, so the third begins in line 5."""
    rows = [list(original) for original in ROWS]
    rows[row][column] = value
    write_csv(data / "table.csv", rows)
    with pytest.raises(UserError, match=message) as error:
        read_image_table(settings_of(data))
    assert len(str(error.value).split("\n")) == 1


def test_several_errors_are_reported_at_once(data):
    rows = [list(original) for original in ROWS]
    rows[0][0], rows[1][1], rows[2][4] = "none.png", "", "perhaps"
    write_csv(data / "table.csv", rows)
    with pytest.raises(UserError) as error:
        read_image_table(settings_of(data))
    assert len(str(error.value).split("\n")) == 3


def test_many_errors_of_one_kind_do_not_hide_others(data):
    absent = ([f"none{number}.png", "A mass.", "9", "0", "1", ""] for number in range(150))
    write_csv(data / "table.csv", [*ROWS, *absent, ["3.png", "", "8", "", "1", ""]])
    with pytest.raises(UserError) as error:
        read_image_table(settings_of(data))
    empty, *absent, more = str(error.value).split("\n")
    assert "line 157: text is ''" in empty
    assert [f"none{number}.png" in message for number, message in enumerate(absent)] == [True, True]
    assert "148 more" in more


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "image,text\n3.png,A mass.\n",
            r"table\.csv: .* one column .*: patient, edema, mass \(found image, text\)",
        ),
        (
            "image;text;patient\n",
            r": image, text, patient, edema, mass \(found image;text;patient\)",
        ),
        ("image,text,patient,edema,mass\n", "has no rows.*expected at least one"),
        ("", r": image, .* \(found none\)"),
        (
            "image,text,patient,edema,mass\n3.png,A mass, large.,8,0,1\n",
            r"line 2 has 6 fields; expected 5.*Enclose text",
        ),
        (
            "image,text,patient,edema,mass\n3.png,A mass.,8\n",
            r"line 2 has 3 fields; expected .*5\b.*header",
        ),
        (
            "image,text,image,patient,edema,mass\n",
            r"exactly one column .*: image \(found image, text, image, ",
        ),
        ("image,text,patient,edema,mass\n3.png,\xff,8,0,1\n", r"line 2 is not UTF-8"),
    ],
)
def test_a_malformed_table_is_named(data, content, message):
    (data / "table.csv").write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match=message):
        read_image_table(settings_of(data))


def test_an_unreadable_table_is_named(data):
    with pytest.raises(UserError, match=r"none\.csv does not exist; expected a table"):
        read_image_table(settings_of(data, table=data / "none.csv"))
    for name, message in (
        ("table.parquet", "cannot be read as a table"),
        ("table.xlsx", r"not in a supported format.*\.csv.*\.parquet"),
    ):
        (data / name).write_bytes(b"PK nothing")
        with pytest.raises(UserError, match=message):
            read_image_table(settings_of(data, table=data / name))
    table = pd.DataFrame({"image": ["3.png"], "text": [[{"en": "A mass."}]]})
    table.to_parquet(data / "table.parquet")
    with pytest.raises(UserError, match=r"row 0 \(the first is 0\): text is not text"):
        read_image_table(
            settings_of(data, table=data / "table.parquet", patient_column=None, label_columns=[])
        )


PATIENTS = [
    [f"{number}.png", "A mass.", str(number), str(number % 2), ["", "0", "1"][number % 3]]
    for number in range(6)
]


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (0, 3, "2", r"table\.csv: line 2: edema is '2'; expected 1, 0, or empty"),
        (
            slice(None),
            4,
            "0",
            r"table\.csv: mass is 1 for no patient; expected at least two.*label_columns",
        ),
        (slice(0, 3), 3, "1", r"table\.csv: edema is 0 for one patient; expected at least two"),
        (0, 0, "1.png", r"table\.csv: line 3: edema differs from .* the first row of the image"),
    ],
)
def test_unusable_labels_are_reported_without_the_images(tmp_path, row, column, value, message):
    table = pd.DataFrame(PATIENTS, columns=HEADER[:5])
    write_csv(tmp_path / "table.csv", table.to_numpy().tolist(), HEADER[:5])
    check_table(settings_of(tmp_path))
    table.iloc[row, column] = value
    write_csv(tmp_path / "table.csv", table.to_numpy().tolist(), HEADER[:5])
    with pytest.raises(UserError, match=message):
        check_table(settings_of(tmp_path))


def test_values_of_a_restricted_table_are_not_shown(tmp_path):
    table = pd.DataFrame(PATIENTS, columns=HEADER[:5])
    table.iloc[0, 3] = table.iloc[1, 0] = "Diagnosis of a patient"
    write_csv(tmp_path / "table.csv", table.to_numpy().tolist(), HEADER[:5])
    for read, columns in ((check_table, ["edema"]), (read_image_table, [])):
        for restricted in (False, True):
            with pytest.raises(UserError, match="expected") as refused:
                read(settings_of(tmp_path, restricted=restricted, label_columns=columns))
            assert ("Diagnosis" in str(refused.value)) is not restricted


def test_a_missing_label_column_is_named_if_the_table_exists(tmp_path):
    check_table(settings_of(tmp_path))
    write_csv(tmp_path / "table.csv", PATIENTS, HEADER[:5])
    with pytest.raises(
        UserError, match=r"table\.csv: .*: fracture \(found image, text, patient, edema, mass\)"
    ):
        check_table(settings_of(tmp_path, label_columns=["edema", "fracture"]))


@pytest.mark.parametrize(
    "changes", [{"label_columns": ["edema", "text "]}, {"patient_column": "image"}]
)
def test_one_column_cannot_serve_two_purposes(tmp_path, changes):
    for check in (check_table, read_image_table):
        with pytest.raises(UserError, match="different column for each purpose"):
            check(settings_of(tmp_path, **changes))


@pytest.mark.skipif(
    "TRUENEG_OPEN_I_IMAGES" not in os.environ,
    reason="TRUENEG_OPEN_I_IMAGES names no folder of its images",
)
def test_real_radiographs_listed_in_a_users_table(tmp_path):
    folder = Path(os.environ["TRUENEG_OPEN_I_IMAGES"])
    images = pd.read_csv(folder / "images.csv").head(100)
    images["text"] = "Radiograph of " + images["report"] + "."
    images.to_csv(tmp_path / "table.csv", index=False)
    source = prepare(
        tmp_path, path=folder / "images", patient_column="report", label_columns=[], resolution=64
    )
    assert source.images.shape == (100, 1, 64, 64)
    assert len(set(source.patients)) == images["report"].nunique()


def test_a_column_of_splits_is_official_and_validation_patients_are_drawn_if_it_has_none(tmp_path):
    rows = []
    for number in range(40):
        write_picture(tmp_path / f"images/{number}.png", number)
        split = "TEST" if number >= 30 else "Train"
        rows.append([f"{number}.png", f"Text {number}", str(number // 2), split])
    write_csv(tmp_path / "table.csv", rows, ["image", "text", "patient", "Split"])
    settings = {"label_columns": [], "split_column": "Split"}
    source = prepare(tmp_path, **settings)
    official, _ = privacy.read_table(beside(tmp_path / "pairs.npz", "splits"))
    numbers = np.array([int(name.removesuffix(".png")) for name in source.reports])
    drawn = set()
    for seed in range(3):
        subset = pair_subset(source, {"validation": 0.2, "test": 0.5}, seed, official)
        assert sorted(numbers[subset.test]) == list(range(30, 40))
        assert len(set(source.patients[subset.validation])) == 3
        assert len(subset.train) == 24
        drawn.add(tuple(subset.validation))
    assert len(drawn) > 1
    assert read_pairs(tmp_path / "pairs.npz").checksum == source.checksum
    rows[0][3] = rows[1][3] = "test"  # another run: its training images have changed
    write_csv(tmp_path / "table.csv", rows, ["image", "text", "patient", "Split"])
    assert prepare(tmp_path, **settings).checksum != source.checksum
    rows[3][3] = "NA"
    write_csv(tmp_path / "table.csv", rows, ["image", "text", "patient", "Split"])
    with pytest.raises(UserError, match=r"line 5: Split is ''; expected a split"):
        read_image_table(settings_of(tmp_path, **settings))
    rows[3][3] = "holiday"
    write_csv(tmp_path / "table.csv", rows, ["image", "text", "patient", "Split"])
    with pytest.raises(UserError, match=r"Split has the values .*holiday.*; expected train, test"):
        read_image_table(settings_of(tmp_path, **settings))


def test_an_image_in_two_splits_is_refused(data):
    rows = [
        [*row[:-1], split]
        for row, split in zip(ROWS, ["train", "test", "test", "test"], strict=True)
    ]
    write_csv(data / "table.csv", rows, [*HEADER[:-1], "split"])
    with pytest.raises(UserError, match="line 6: split differs from its value in the first row"):
        read_image_table(settings_of(data, split_column="split"))


def test_decoding_every_image_in_check_spares_the_job_the_decoding(data, monkeypatch):
    """``check --images`` fills the cache of the job; both read the same images and labels."""
    changes = {"split_sentences": False, "label_columns": []}
    settings = settings_of(data, **changes)
    opened, _ = registry.first_look(settings, data / "cache", decoded=0)
    assert not (data / "cache").exists()
    looked, _ = registry.first_look(settings, data / "cache", decoded=math.inf)

    def refuse(*arguments, **options):
        raise AssertionError("the job decodes an image again")

    monkeypatch.setattr(image_cache, "decode_square", refuse)
    source = prepare(data, **changes)
    assert looked.checksum == source.checksum != opened.checksum
    assert opened.reports.tolist() == source.reports.tolist()


HARD = ["image", "text", "patient", "edema", "mass", "remark", "wrong", "more"]
WITH_HARD = [
    [*ROWS[0], "a/2.jpg", '["3.png", "a/2.jpg"]'],
    [*ROWS[1], "3.png", "a\\1.png"],
    [*ROWS[2], "nowhere.png", "[]"],
    [*ROWS[3], "", '["3.png"]'],
    ["3.png", "no CHANGE", "8", "", "1", "", "a/1.png", "a/2.jpg"],
]
GIVEN = {"split_sentences": False, "negative_image_columns": ["wrong", "more"]}


def test_hard_negatives_are_images_of_other_rows(data):
    write_csv(data / "table.csv", WITH_HARD, HARD)
    source = prepare(data, **GIVEN)
    negatives = {
        sentence: [source.reports[image] for image in images if image >= 0]
        for sentence, images in zip(source.sentences["sentence"], source.negatives, strict=True)
    }
    # a/1.png and 3.png are right answers to "No change", whatever its case
    assert negatives == {
        "Heart size is normal. No edema.": ["a/2.jpg", "3.png"],
        'Said "edema", is edema.': ["3.png", "a/1.png"],
        "A mass.": [],
        "No change": [],
        "no CHANGE": ["a/2.jpg"],
    }
    unknown, own, few = source.skipped.split(". ")
    assert re.search(r"image of no row .*: 1 \(line 5\)$", unknown)
    assert re.search(r"show their text .*: 2 \(line 6, line 7\)$", own)
    assert re.search(r"fewer than 2 .*: 3, of which 2 .*\(line 5, line 6, line 7\)", few)
    assert check_table(settings_of(data, **GIVEN, label_columns=[])) == source.skipped
    assert source.checksum != prepare(data, split_sentences=False).checksum


def test_the_hard_negatives_of_a_parquet_table_are_the_same(data):
    write_csv(data / "table.csv", WITH_HARD, HARD)
    expected = prepare(data, **GIVEN)
    table = pd.DataFrame(WITH_HARD, columns=HARD)
    lists = {"": None, "[]": []} | {cell: json.loads(cell) for cell in table["more"] if "[" in cell}
    table["more"] = [lists.get(cell, [cell]) for cell in table["more"]]
    table.to_parquet(data / "table.parquet")
    assert prepare(data, **GIVEN, table=data / "table.parquet").checksum == expected.checksum


def test_an_image_that_is_left_out_is_nobodys_hard_negative(data):
    write_csv(data / "table.csv", WITH_HARD, HARD)
    (data / "images" / "3.png").write_bytes(b"no image")
    source = prepare(data, **GIVEN, skip_incomplete=0.5)
    assert source.reports.tolist() == ["a/1.png", "a/2.jpg"]
    assert source.negatives.tolist() == [[1], [0], [-1]]
    assert "Hard negatives whose image is left out are left out, too: 2." in source.skipped


@pytest.mark.parametrize("restricted", [False, True])
def test_columns_that_name_no_image_of_the_table_are_refused(data, restricted):
    captions = [[*row, "A caption of another image.", ""] for row in ROWS]
    write_csv(data / "table.csv", captions, HARD)
    with pytest.raises(UserError) as error:
        read_images(
            settings_of(data, **GIVEN) | {"restricted": restricted},
            {"sentences": pd.DataFrame({"report": ["3.png"]})},
            1,
        )
    message = str(error.value)
    for fact in ("table.csv", "wrong, more, name 1 image", "docs/losses.md"):
        assert fact in message
    assert ("another image" in message) != restricted


def test_a_list_of_hard_negatives_that_cannot_be_read_is_refused(data):
    write_csv(data / "table.csv", [[*WITH_HARD[0][:-1], "['3.png', a/2.jpg']"]], HARD)
    with pytest.raises(UserError, match=r"line 2: more is .*an image, or a JSON list of images"):
        prepare(data, **GIVEN)

"""MIMIC-CXR-JPG and MS-CXR: the official tables become a source, no patient leaks, and errors name
missing or damaged files.
"""

import gzip
import shutil
import stat
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from PIL import Image

from tests.data.official_layouts import (
    FINDINGS,
    Box,
    mimic_labels,
    mimic_sentences,
    ms_cxr,
    write_mimic_cxr,
    write_mimic_reports,
    write_ms_cxr,
)
from tests.data.pictures import encoded
from trueneg.data.draw import draw_subsets
from trueneg.data.image_cache import decode_square
from trueneg.data.pairs.mimic_cxr import (
    missing_files,
    read_labels,
    read_radiographs,
)
from trueneg.data.pairs.ms_cxr import read_boxes, to_square
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.registry import prepare_pairs
from trueneg.data.phantom.radiographs import CHEX5
from trueneg.data.reports import mimic_cxr as reports
from trueneg.data.reports.prepare import prepare_reports
from trueneg.data.samples import SPLITS, read_subsets
from trueneg.errors import UserError
from trueneg.evaluation.pairs.grounding import boxed_phrases
from trueneg.io import privacy
from trueneg.specs.kinds.pairs import ImageTextStudy
from trueneg.text.sentences import split_reports
from trueneg.training.radiograph_augmentation import RadiographAugmentation

PATIENTS, SIDE = 20, 32
VALUES = {"1.0": 1.0, "0.0": 0.0, "-1.0": np.nan, "": np.nan}


def labels_of(written):
    return [VALUES[written.get(name, "")] for name in FINDINGS]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write the data set and run the text steps; tests must not change the files."""
    folder = tmp_path_factory.mktemp("mimic")
    radiographs = write_mimic_cxr(folder / "jpg", PATIENTS)
    write_mimic_reports(folder / "reports", radiographs, without=[radiographs[0].study])
    write_ms_cxr(folder / "ms-cxr", ms_cxr(radiographs))
    prepare_reports({"source": "mimic_cxr", "path": folder / "reports"}, folder / "reports.parquet")
    tables = {name: folder / f"{name}.parquet" for name in ("sentences", "unique")}
    split_reports(folder / "reports.parquet", **tables, cache=folder / "split")
    return folder, radiographs


@pytest.fixture
def data(tmp_path):
    return tmp_path, write_mimic_cxr(tmp_path, PATIENTS)


def prepare(made, out, **changes):
    folder, _ = made
    settings = {"source": "mimic_cxr", "path": folder / "jpg", "images": None, "resolution": SIDE}
    settings |= {"fit": "crop", "ms_cxr": folder / "ms-cxr", "views": "frontal"}
    text = {"sentences": folder / "sentences.parquet"}
    prepare_pairs(settings | changes, text, out / "pairs.npz", cache=out / "cache", threads=1)
    tables = [privacy.read_table(out / f"pairs-{name}.parquet")[0] for name in ("splits", "boxes")]
    return read_pairs(out / "pairs.npz"), *tables


def used(radiographs, *, lateral=False):
    """Return the radiographs of reports with text, sorted by patient, study and id."""
    chosen = [
        image
        for image in radiographs
        if (image.frontal or lateral) and image.study != radiographs[0].study
    ]
    return sorted(chosen, key=lambda image: (image.subject, image.study, image.dicom))


def official_splits(radiographs):
    return {
        f"s{image.study}": {"validate": "validation"}.get(image.split, image.split)
        for image in radiographs
    }


def test_frontal_images_are_joined_with_the_sentences_of_their_study(made, tmp_path):
    source, _, _ = prepare(made, tmp_path)
    expected = used(made[1])
    assert source.restricted
    assert source.name == "mimic_cxr"
    assert source.reports.tolist() == [f"s{image.study}" for image in expected]
    assert source.patients.tolist() == [f"p{image.subject}" for image in expected]
    assert len(set(source.reports)) < len(source.reports)  # some studies have two frontal images
    for pixels, image in zip(source.images, expected, strict=True):
        np.testing.assert_array_equal(
            pixels, decode_square((made[0] / "jpg" / "files" / image.file).read_bytes(), "L", SIDE)
        )
    said = source.sentences.groupby("report")["sentence"].agg(list)
    assert all(said[f"s{image.study}"] == mimic_sentences(image.study) for image in expected)


def test_all_views_include_lateral_images_in_every_split_with_the_labels_of_their_study(
    made, tmp_path
):
    frontal, _, boxes = prepare(made, tmp_path / "frontal")
    source, _, all_boxes = prepare(made, tmp_path / "all", views="all")
    expected, written = used(made[1], lateral=True), mimic_labels(made[1])
    assert source.reports.tolist() == [f"s{image.study}" for image in expected]
    is_frontal = np.array([image.frontal for image in expected])
    np.testing.assert_array_equal(source.images[is_frontal], frontal.images)
    for pixels, image in zip(
        source.images[~is_frontal], (image for image in expected if not image.frontal), strict=True
    ):
        np.testing.assert_array_equal(
            pixels, decode_square((made[0] / "jpg" / "files" / image.file).read_bytes(), "L", SIDE)
        )
    labels = [labels_of(written.get(image.study, {})) for image in expected]
    np.testing.assert_array_equal(source.labels, np.array(labels, np.float32))
    draw_subsets(
        ImageTextStudy,
        tmp_path / "all/pairs.npz",
        {},
        [0],
        tmp_path / "subsets.parquet",
        tmp_path / "all/pairs-splits.parquet",
    )
    subset = read_subsets(tmp_path / "subsets.parquet")[0]
    for name in SPLITS:
        assert set(is_frontal[getattr(subset, name)]) == {True, False}
    assert len(all_boxes) == len(boxes)
    boxed = [expected[place].dicom for place in all_boxes["image"]]
    assert boxed == [used(made[1])[place].dicom for place in boxes["image"]]


def test_labels_are_those_of_the_study_and_unknown_if_uncertain_or_not_mentioned(made, tmp_path):
    source, _, _ = prepare(made, tmp_path)
    assert source.label_names == CHEX5
    written = mimic_labels(made[1])
    expected = [labels_of(written.get(image.study, {})) for image in used(made[1])]
    np.testing.assert_array_equal(source.labels, np.array(expected, np.float32))
    assert {0, 1} <= set(source.labels.ravel())


def test_patients_of_ms_cxr_are_in_no_training_or_validation_split(made, tmp_path):
    source, splits, _ = prepare(made, tmp_path)
    boxed, official = {f"p{box.image.subject}" for box in ms_cxr(made[1])}, official_splits(made[1])
    patient_of = dict(zip(source.reports.tolist(), source.patients.tolist(), strict=True))
    assert splits["report"].is_unique
    assert set(splits["report"]) == set(source.reports)
    moved = 0
    for report, split in splits.to_numpy().tolist():
        has_box = patient_of[report] in boxed
        assert split == ("test" if has_box else official[report])
        moved += has_box and official[report] != "test"
    assert moved
    assert {"train", "validation", "test"} == set(splits["split"])
    draw_subsets(
        ImageTextStudy,
        tmp_path / "pairs.npz",
        {},
        [0],
        tmp_path / "subsets.parquet",
        tmp_path / "pairs-splits.parquet",
    )
    subset = read_subsets(tmp_path / "subsets.parquet")[0]
    assert sum(len(getattr(subset, name)) for name in SPLITS) == len(source.images)
    for name in ("train", "validation"):
        assert boxed.isdisjoint(source.patients[getattr(subset, name)])


def test_without_ms_cxr_the_splits_are_the_official_ones_and_there_are_no_boxes(made, tmp_path):
    source, splits, boxes = prepare(made, tmp_path, ms_cxr=None)
    official = official_splits(made[1])
    assert splits.set_index("report")["split"].to_dict() == {
        report: official[report] for report in source.reports
    }
    assert boxed_phrases(source, np.arange(len(source.images)), boxes, (24, 24)).empty


def expected_corners(box, size, side, fit="crop"):
    """Return a box's corners after the shorter side, or both sides, became `side` and the centre
    was kept.
    """
    shorter = min(size)
    resized = [
        side if length == shorter or fit == "stretch" else int(side * length / shorter)
        for length in size
    ]
    cut = [round((length - side) / 2) for length in resized]
    x, y, width, height = box
    return [
        x * (resized[0] / size[0]) - cut[0],
        y * (resized[1] / size[1]) - cut[1],
        (x + width) * (resized[0] / size[0]) - cut[0],
        (y + height) * (resized[1] / size[1]) - cut[1],
    ]


def test_phrases_keep_their_text_and_their_boxes_move_with_the_image(made, tmp_path):
    source, _, boxes = prepare(made, tmp_path)
    kept = {image.dicom: place for place, image in enumerate(used(made[1]))}
    drawn = [box for box in ms_cxr(made[1]) if box.image.dicom in kept]
    assert len(drawn) < len(ms_cxr(made[1]))  # one report has no text
    for (_, row), box in zip(boxes.iterrows(), drawn, strict=True):
        assert row["image"] == kept[box.image.dicom]
        assert row["report"] == f"s{box.image.study}"
        assert (row["sentence"], row["finding"], row["class"]) == (box.phrase, box.category, -1)
        expected = expected_corners(box[3:], (box.image.width, box.image.height), SIDE)
        np.testing.assert_allclose(
            row[["x0", "y0", "x1", "y1"]].to_numpy(float), expected, rtol=1e-12
        )
    phrases = boxed_phrases(source, np.arange(len(source.images)), boxes, source.size)
    both = phrases.groupby("phrase")["sentence"].agg(["first", "count"])
    assert (both["count"] == np.where(both["first"].str.endswith("on both sides"), 2, 1)).all()
    assert set(phrases["sentence"]).isdisjoint(source.sentences["sentence"])


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(["crop", "stretch"]))
def test_a_box_moves_with_its_pixels(data, fit):
    """A white rectangle on a black image is decoded; the white pixels are in the converted box."""
    size = data.draw(st.tuples(st.integers(60, 200), st.integers(60, 200)))
    width, height = (data.draw(st.integers(20, length // 2)) for length in size)
    x, y = data.draw(st.integers(0, size[0] - width)), data.draw(st.integers(0, size[1] - height))
    side = data.draw(st.integers(40, 80))
    pixels = np.zeros(size[::-1], np.uint8)
    pixels[y : y + height, x : x + width] = 255
    square = decode_square(encoded(Image.fromarray(pixels)), "L", side, fit)[0] / 255
    x0, y0, x1, y1 = to_square([x, y, x + width, y + height], size, side, fit)
    np.testing.assert_allclose(
        [x0, y0, x1, y1],
        expected_corners((x, y, width, height), size, side, fit),
        rtol=0,
        atol=1e-9,
    )
    inside = [max(0.0, min(stop, side) - max(start, 0.0)) for start, stop in ((x0, x1), (y0, y1))]
    assert square.sum() == pytest.approx(inside[0] * inside[1], abs=0.6 * sum(inside) + 1)
    if min(inside) > 4:
        columns, rows = np.flatnonzero(square.max(0) > 0.5), np.flatnonzero(square.max(1) > 0.5)
        edges = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        np.testing.assert_allclose(edges, np.clip([x0, y0, x1, y1], 0, side), atol=1.01)


def test_stretched_images_evaluated_whole_keep_every_box(made, tmp_path):
    """Bright rectangles in all four corners of wide and high images are where their boxes are."""
    without = made[1][0].study
    images = [box.image for box in ms_cxr(made[1])[::3] if box.image.study != without]
    drawn, side = [], 64
    for number, image in enumerate(images):
        x, y = (image.width - 5) * (number % 2), (image.height - 4) * (number // 2 % 2)
        drawn.append(Box(image, "Edema", f"edema {number}", x, y, 5, 4))
        pixels = np.zeros((image.height, image.width), np.uint8)
        pixels[y : y + 4, x : x + 5] = 255
        (tmp_path / "jpg/files" / image.file).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "jpg/files" / image.file, quality=100)
    write_ms_cxr(tmp_path / "ms-cxr", drawn)
    shutil.copytree(
        made[0] / "jpg", tmp_path / "jpg", copy_function=_copy_missing, dirs_exist_ok=True
    )
    phrases = {}
    for fit, evaluated in (("crop", "crop"), ("stretch", "whole")):
        places = {
            "path": tmp_path / "jpg",
            "ms_cxr": tmp_path / "ms-cxr",
            "resolution": side,
            "fit": fit,
        }
        source, _, boxes = prepare(made, tmp_path / fit, **places)
        size = RadiographAugmentation([0], [1], evaluated=evaluated).evaluated_size(source.size)
        phrases[fit] = boxed_phrases(source, np.arange(len(source.images)), boxes, size)
    assert len(phrases["crop"]) < len(drawn)
    assert sorted(phrases["stretch"]["sentence"]) == sorted(box.phrase for box in drawn)
    for row in phrases["stretch"].itertuples():
        bright = source.images[row.image, 0] > 127
        rows, columns = np.flatnonzero(bright.any(1)), np.flatnonzero(bright.any(0))
        edges = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        np.testing.assert_allclose(edges, [row.x0, row.y0, row.x1, row.y1], atol=1.01)
        assert {row.x0, row.x1} & {0.0, float(side)}
        assert {row.y0, row.y1} & {0.0, float(side)}


def _copy_missing(source, target):
    return target if Path(target).exists() else shutil.copy(source, target)


def test_both_versions_of_ms_cxr_are_read_and_the_newer_one_is_preferred(made, tmp_path):
    radiographs, boxes = read_radiographs(made[0] / "jpg"), ms_cxr(made[1])
    expected = read_boxes(made[0] / "ms-cxr", radiographs)
    assert len(expected) == len(boxes)
    write_ms_cxr(tmp_path, boxes, version="1.0.0")
    pd.testing.assert_frame_equal(read_boxes(tmp_path, radiographs), expected)
    write_ms_cxr(tmp_path, boxes[:3], version="1.1.0")
    assert len(read_boxes(tmp_path, radiographs)) == 3


@pytest.mark.parametrize(
    ("images", "path"),
    [(".", "jpg"), ("files", "jpg/files"), (".", "jpg/files")],
    ids=["flat", "files", "flat, called files"],
)
def test_path_may_name_the_folder_of_tables_or_images(made, tmp_path, images, path):
    folder = tmp_path / (path if images == "." else "jpg")
    write_mimic_cxr(folder, PATIENTS, images=images)
    for table in folder.glob("*.csv.gz") if path == "jpg/files" and images == "." else ():
        table.with_suffix("").write_bytes(gzip.decompress(table.read_bytes()))
        table.unlink()
    expected, _, _ = prepare(made, tmp_path / "expected")
    assert prepare(made, tmp_path / "other", path=tmp_path / path)[0].checksum == expected.checksum


def test_only_the_owner_can_read_the_files_written(made, tmp_path):
    prepare(made, tmp_path)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    tables = ("pairs.parquet", "pairs-splits.parquet", "pairs-boxes.parquet")
    assert {"pairs.npz", "values.npy", *tables} <= {path.name for path in written}
    assert all(privacy.read_table(tmp_path / name)[1] for name in tables)


def test_the_number_of_reports_can_be_limited(made, tmp_path):
    expected = list(dict.fromkeys(f"s{image.study}" for image in used(made[1])))
    source, splits, boxes = prepare(made, tmp_path, images=4)
    assert list(dict.fromkeys(source.reports.tolist())) == expected[:4] == splits["report"].tolist()
    assert set(boxes["report"]) <= set(expected[:4])
    with pytest.raises(
        UserError, match=rf"images is 99; expected at most {len(expected)}, the number of reports"
    ):
        prepare(made, tmp_path, images=99)


def test_missing_reports_are_reported(made, tmp_path):
    table = privacy.read_table(made[0] / "sentences.parquet")[0]
    privacy.write_table(
        table[table["report"] < "s50000014"], tmp_path / "sentences.parquet", restricted=True
    )
    for name in ("jpg", "ms-cxr"):
        (tmp_path / name).symlink_to(made[0] / name)
    absent = (tmp_path, made[1])
    with pytest.raises(
        UserError, match=r"of 30 studies have no sentence, .* mimic-cxr-reports\.zip"
    ):
        prepare(absent, tmp_path)
    prepare(absent, tmp_path, images=1)  # the first report exists
    privacy.write_table(
        table[table["report"] == table["report"].max()],
        tmp_path / "sentences.parquet",
        restricted=True,
    )
    with pytest.raises(UserError, match=r"studies have no sentence, so reports are missing"):
        prepare(absent, tmp_path, images=1)


def rewrite(path, change):
    """Change the text of a compressed table."""
    text = gzip.decompress(path.read_bytes()).decode()
    assert change(text) != text
    path.write_bytes(gzip.compress(change(text).encode()))


TABLES = {"metadata": read_radiographs, "split": read_radiographs, "chexpert": read_labels}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path, content: path.unlink(), r" is missing; expected .* \(found "),
        (
            lambda path, content: path.write_bytes(content[: len(content) // 2]),
            r"read as a table \(EOFError",
        ),
        (
            lambda path, content: path.write_bytes(content[:40] + bytes(64) + content[104:]),
            r"read as a table \(",
        ),
        (lambda path, content: path.write_bytes(b"<html>"), r"one column .* \(found <html>\)"),
        (
            lambda path, content: rewrite(path, lambda text: text.replace("study_id", "x")),
            r"one column .*: study_id \(found ",
        ),
    ],
    ids=["missing", "truncated", "overwritten", "not gzip", "column"],
)
def test_missing_and_damaged_tables_are_named_with_their_origin(data, name, damage, message):
    path = data[0] / f"mimic-cxr-2.0.0-{name}.csv.gz"
    damage(path, path.read_bytes())
    with pytest.raises(UserError, match=message) as error:
        TABLES[name](data[0])
    assert str(path) in str(error.value)
    assert (
        "MIMIC-CXR-JPG 2.0.0 and 2.1.0, available to credentialed users on PhysioNet (https://"
        in str(error.value)
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "metadata",
            ",10000000,",
            ",p10000000,",
            r"metadata\.csv\.gz: line 2: subject_id is 'p10000000'; expected a number",
        ),
        (
            "metadata",
            "CHEST,PA,36,",
            "CHEST,PA,,",
            r"line 2: Rows is ''; expected a positive number of pixels",
        ),
        (
            "split",
            ",train\n",
            ",training\n",
            r"split\.csv\.gz: line \d+: split is 'training'; expected train, validate, test",
        ),
        (
            "chexpert",
            "1.0",
            "2",
            r"chexpert\.csv\.gz: line 2: Edema is '-2'; expected 1, 0, -1 or an empty value",
        ),
    ],
)
def test_invalid_values_are_named(data, name, old, new, message):
    rewrite(data[0] / f"mimic-cxr-2.0.0-{name}.csv.gz", lambda text: text.replace(old, new, 5))
    with pytest.raises(UserError, match=message):
        TABLES[name](data[0])


@pytest.mark.parametrize("name", TABLES)
def test_a_duplicate_line_is_named(data, name):
    rewrite(
        data[0] / f"mimic-cxr-2.0.0-{name}.csv.gz",
        lambda text: text + text.splitlines(keepends=True)[1],
    )
    with pytest.raises(
        UserError, match=rf"{name}\.csv\.gz: line \d+: \w+ repeats the value of an earlier row\."
    ):
        TABLES[name](data[0])


def test_inconsistent_tables_are_rejected(data):
    folder, _ = data
    lines = {name: folder / f"mimic-cxr-2.0.0-{name}.csv.gz" for name in ("metadata", "split")}
    whole = lines["split"].read_bytes()
    rewrite(lines["split"], lambda text: "".join(text.splitlines(keepends=True)[:-3]))
    with pytest.raises(UserError, match=r"split\.csv\.gz lacks 3 images of .*metadata"):
        read_radiographs(folder)
    lines["split"].write_bytes(whole)
    rewrite(lines["metadata"], lambda text: "".join(text.splitlines(keepends=True)[:-2]))
    with pytest.raises(UserError, match=r"metadata\.csv\.gz lacks 2 images"):
        read_radiographs(folder)


def test_missing_images_are_named(made, tmp_path):
    radiographs = write_mimic_cxr(tmp_path / "jpg", PATIENTS)
    frontal = used(radiographs)[0]
    lateral = next(image for image in radiographs if not image.frontal)
    (tmp_path / "jpg" / "files" / lateral.file).unlink()
    prepare(made, tmp_path, path=tmp_path / "jpg")
    (tmp_path / "jpg" / "files" / frontal.file).unlink()
    with pytest.raises(
        UserError,
        match=rf"{frontal.file} is missing; expected an image\. It is part of MIMIC-CXR-JPG",
    ):
        prepare(made, tmp_path, path=tmp_path / "jpg")
    (tmp_path / "jpg" / "files").rename(tmp_path / "jpg" / "pictures")
    with pytest.raises(
        UserError,
        match=r"files/p1\? is missing; .*radiographs, .* \(found mimic-.*\)\. It is part of",
    ):
        prepare(made, tmp_path, path=tmp_path / "jpg")
    with pytest.raises(
        UserError, match=r"dataset\.path is missing; source mimic_cxr .*mimic-cxr-2\.0\.0-metadata"
    ):
        read_radiographs(None)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "dicom_id",
            "00-11",
            "line 3: dicom_id is '00-11'; expected an image of MIMIC-CXR-JPG's metadata",
        ),
        ("image_width", "999", "line 3: image_width is '999'; expected that of MIMIC-CXR-JPG"),
        ("image_height", "", "line 3: image_height is ''; expected that of MIMIC-CXR-JPG"),
        (
            "w",
            "inf",
            "line 3: box is '9, 20, inf, 9'; expected x, y, w and h of a box in the image",
        ),
        ("w", "0", "line 3: box is '9, 20, 0, 9'; expected x, y, w and h of a box in the image"),
        (
            "x",
            "wide",
            "line 3: box is 'wide, 20, 22, 9'; expected x, y, w and h of a box in the image",
        ),
        (
            "y",
            "36",
            r"line 3: box is '\d+, 36, \d+, \d+'; expected x, y, w and h of a box in the image",
        ),
        ("label_text", " ", "line 3: label_text is ' '; expected a non-empty text"),
        ("category_name", "", "line 3: category_name is ''; expected a non-empty text"),
    ],
)
def test_invalid_boxes_are_named(made, tmp_path, column, value, message):
    path = write_ms_cxr(tmp_path, ms_cxr(made[1]))
    table = pd.read_csv(path, dtype=object)
    table.loc[1, column] = value
    table.to_csv(path, index=False)
    radiographs = read_radiographs(made[0] / "jpg")
    with pytest.raises(UserError, match=message) as error:
        read_boxes(tmp_path, radiographs)
    assert "It is part of MS-CXR 0.1 and 1.1.0" in str(error.value)


def test_missing_and_damaged_tables_of_ms_cxr_are_named(made, tmp_path):
    radiographs = read_radiographs(made[0] / "jpg")
    ending = r"It is part of MS-CXR 0\.1 and 1\.1\.0, available to credentialed users on PhysioNet"
    with pytest.raises(
        UserError,
        match=rf"MS_CXR_.*csv is missing; .*boxes of MS-CXR \(found an empty folder\)\. {ending}",
    ):
        read_boxes(tmp_path, radiographs)
    path = write_ms_cxr(tmp_path, ms_cxr(made[1]))
    with pytest.raises(UserError, match="is missing; expected the boxes of MS-CXR"):
        read_boxes(path, radiographs)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0])
    with pytest.raises(UserError, match=r"1\.1\.0\.csv: .*no boxes\."):
        read_boxes(tmp_path, radiographs)
    path.write_text("".join(lines)[:-40])
    with pytest.raises(UserError, match=rf"1\.1\.0\.csv: .*expected.*{ending}"):
        read_boxes(tmp_path, radiographs)


def test_missing_files_are_listed_with_their_origin(made, tmp_path):
    settings = {"path": tmp_path / "no", "ms_cxr": tmp_path / "neither"}
    parts, boxes = missing_files(settings)
    assert all(
        name in parts
        for name in (*(f"mimic-cxr-2.0.0-{name}.csv.gz" for name in TABLES), "files/p1?")
    )
    assert "https://physionet.org/content/mimic-cxr-jpg/" in parts
    assert "https://physionet.org/content/ms-cxr/" in boxes
    assert "https://physionet.org/content/mimic-cxr/" in reports.missing_files(settings)[0]
    there = {"path": made[0] / "jpg", "ms_cxr": made[0] / "ms-cxr"}
    assert missing_files(there) == missing_files(there | {"ms_cxr": None}) == []
    assert reports.missing_files({"path": made[0] / "reports"}) == []

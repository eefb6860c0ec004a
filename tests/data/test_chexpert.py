"""CheXpert's tables and ConVIRT's 8×200 lists: read as they are, and what is missing, damaged or not whole is named."""

import doctest
import stat

import numpy as np
import pytest

from tests.data.official_layouts import (
    CHEXPERT_OBSERVATIONS,
    EIGHT,
    chexpert_8x200,
    write_chexpert,
    write_chexpert_pictures,
    write_convirt_lists,
)
from trueneg.data.image_cache import decode_square
from trueneg.data.pairs import chexpert
from trueneg.data.pairs.chexpert import missing_files, read_chexpert
from trueneg.data.pairs.chexpert_8x200 import held_out_paths, prepare_chexpert_8x200, read_benchmark, read_lists
from trueneg.data.pairs.chexpert_8x200 import missing_files as missing_of_8x200
from trueneg.errors import UserError

ROWS = [
    ("train/patient00001/study1/view1_frontal.jpg", {"Edema": "1.0", "Fracture": "-1.0", "No Finding": "0.0"}),
    ("train/patient00001/study1/view2_lateral.jpg", {"Edema": "1.0"}),
    ("train/patient00002/study12/view1_frontal.jpg", {}),
    ("valid/patient64541/study1/view1_frontal.jpg", {"Pneumonia": "0.0"}),
]
LISTS = chexpert_8x200()


@pytest.fixture
def tables(tmp_path):
    write_chexpert(tmp_path, ROWS)
    return tmp_path


@pytest.fixture
def lists(tmp_path):
    write_convirt_lists(tmp_path / "convirt", LISTS)
    return tmp_path / "convirt"


def test_examples():
    failed, attempted = doctest.testmod(chexpert)
    assert attempted
    assert not failed


@pytest.mark.parametrize("prefix", ["CheXpert-v1.0-small", "CheXpert-v1.0"])
@pytest.mark.parametrize("inside", [False, True])
def test_the_tables_are_read_whatever_their_paths_begin_with(tmp_path, prefix, inside):
    write_chexpert(tmp_path / prefix if inside else tmp_path, ROWS, prefix=prefix)
    table = read_chexpert(tmp_path, "train")
    assert table["path"].tolist() == [path for path, _ in ROWS[:3]]
    assert table["patient"].tolist() == ["patient00001", "patient00001", "patient00002"]
    assert table["study"].tolist() == ["study1", "study1", "study12"]
    assert table["frontal"].tolist() == [True, False, True]
    for (_, labels), row in zip(ROWS[:3], table[list(CHEXPERT_OBSERVATIONS)].to_numpy(), strict=True):
        np.testing.assert_array_equal(row, [float(labels.get(name, "nan")) for name in CHEXPERT_OBSERVATIONS])
    assert read_chexpert(tmp_path, "valid")["Pneumonia"].tolist() == [0.0]
    with pytest.raises(ValueError, match="split is 'test', expected one of train, valid"):
        read_chexpert(tmp_path, "test")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("CheXpert-v1.0-small/train/patient00002", "images/patient00002", r"line 4: Path is 'images/patient00002/study12/view1"),
        ("small/train/patient00002", "small/valid/patient00002", "line 4: Path is .*, expected CheXpert-v1.0-small/train/"),
        ("view2_lateral", "view1_frontal", "line 3: Path is that of an earlier line"),
        ("Frontal,AP", "Front,AP", "line 2: Frontal/Lateral is 'Front', expected Frontal or Lateral"),
        ("-1.0", "-2", "line 2: Fracture is -2, expected 1, 0, -1 or nothing"),
        ("Fracture,", "Break,", r"has no column Fracture \(found Path"),
    ],
)
def test_lines_that_are_wrong_are_named(tables, old, new, message):
    path = tables / "train.csv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UserError, match=message) as told:
        read_chexpert(tables, "train")
    assert str(told.value).startswith(str(path))
    assert "which Stanford AIMI gives on registration (https://" in str(told.value)


def test_a_table_that_is_missing_is_named(tables):
    (tables / "valid.csv").unlink()
    with pytest.raises(
        UserError, match=r"valid\.csv: is not there, .* It is part of CheXpert, or of CheXpert-small, which Stanford"
    ):
        read_chexpert(tables, "valid")


def test_the_lists_are_read_and_say_which_images_may_not_be_trained_on(lists, caplog):
    with caplog.at_level("INFO"):
        found = read_lists(lists)
    for table, expected in ((found.candidates, LISTS.candidates), (found.images, LISTS.images)):
        assert list(zip(table["path"], table["label"], strict=True)) == expected
    assert list(zip(found.texts["sentence"], found.texts["label"], strict=True)) == LISTS.texts
    assert found.images["patient"].tolist() == [path.split("/")[1] for path, _ in LISTS.images]
    assert "6 patients of image queries have candidates too" in caplog.text
    held_out = held_out_paths(lists)
    assert held_out == {path for path, _ in (*LISTS.candidates, *LISTS.images)}
    assert len(held_out) == 1680


CANDIDATES, QUERIES, TEXTS = "image-retrieval/candidate.csv", "image-retrieval/query.csv", "text-retrieval/query.csv"
FIRST, QUERY = LISTS.candidates[0], LISTS.images[0]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (QUERIES, QUERY[0], FIRST[0], r"query\.csv: 1 of its images are candidates too, expected none"),
        (QUERIES, QUERY[0], LISTS.images[1][0], r"query\.csv: line 3: path is that of an earlier line"),
        (QUERIES, QUERY[0], "train/nobody.jpg", r"line 2: path is 'CheXpert-v1\.0-small/train/nobody\.jpg', expected one of"),
        (
            QUERIES,
            QUERY[0],
            QUERY[0].replace("train", "valid"),
            r"line 2: path is '.*', expected one of CheXpert's training split",
        ),
        (QUERIES, "Pneumonia,", "Flu,", r"line 5: label is 'Flu', expected one of No Finding, Cardiomegaly"),
        (TEXTS, "Edema,Sentence 2 ", "Fracture,Sentence 2 ", r"text-retrieval/query\.csv: has 4 of Edema, expected 5"),
        (TEXTS, "Sentence 9 on cardiomegaly.", "Sentence 1 on cardiomegaly.", r"line 11: sentence is that of an earlier line"),
        (TEXTS, "Sentence 9 on cardiomegaly.", " ", "line 11: is empty"),
        (TEXTS, "Text", "Sentence", r"query\.csv: has no column Text \(found Variable, Sentence\)"),
    ],
)
def test_lists_that_are_not_whole_are_refused(lists, name, old, new, message):
    path = lists / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError, match=message) as told:
        read_lists(lists)
    assert "It is part of the lists of https://github.com/yuhaozhang/convirt" in str(told.value)


def both_candidates(lists, change):
    for kind in ("image-retrieval", "text-retrieval"):
        path = lists / kind / "candidate.csv"
        lines = path.read_text().split("\n")
        path.write_text("\n".join(change(lines)))


def test_candidates_that_are_not_whole_are_refused(lists):
    both_candidates(lists, lambda lines: lines[:-1])
    with pytest.raises(UserError, match=rf"candidate\.csv: has 199 of {LISTS.candidates[-1][1]}, expected 200"):
        read_lists(lists)
    write_convirt_lists(lists, LISTS)
    both_candidates(lists, lambda lines: [lines[0], lines[1].replace("1.0,", "0.0,"), *lines[2:]])
    with pytest.raises(UserError, match=r"candidate\.csv: line 2: has not exactly one label of 1"):
        read_lists(lists)
    write_convirt_lists(lists, LISTS)
    path = lists / "text-retrieval" / "candidate.csv"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(UserError, match=r"text-retrieval/candidate\.csv: is another file, expected the same bytes"):
        read_lists(lists)
    path.unlink()
    with pytest.raises(UserError, match=r"text-retrieval/candidate\.csv: is not there, expected the same bytes"):
        read_lists(lists)
    (lists / TEXTS).unlink()
    with pytest.raises(UserError, match=r"text-retrieval/query\.csv: is not there, expected a table"):
        read_lists(lists)
    with pytest.raises(UserError, match=r"none: is no folder, expected one with image-retrieval/candidate\.csv"):
        read_lists(lists / "none")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chexpert")
    write_convirt_lists(folder / "convirt", LISTS)
    write_chexpert_pictures(folder / "CheXpert-v1.0-small", (*LISTS.candidates, *LISTS.images))
    return folder


def prepare(world, out):
    settings = {"path": world, "lists": world / "convirt", "resolution": 8}
    prepare_chexpert_8x200(settings, benchmark=out / "8x200.npz", cache=out / "cache", threads=1)
    return read_benchmark(out / "8x200.npz")


def test_the_benchmark_holds_the_images_of_the_lists_and_is_its_owners_alone(world, tmp_path):
    found = prepare(world, tmp_path)
    everything = (*LISTS.candidates, *LISTS.images)
    assert found.images.shape == (1680, 1, 8, 8)
    for place in (0, 1, 700, 1599, 1600, 1679):
        path, label = everything[place]
        content = (world / "CheXpert-v1.0-small" / path).read_bytes()
        np.testing.assert_array_equal(found.images[place], decode_square(content, "L", 8))
        assert found.label_names[found.labels[place]] == label
        assert found.patients[place] == path.split("/")[1]
    assert found.is_query.tolist() == [False] * 1600 + [True] * 80
    assert sorted(found.label_names) == sorted(EIGHT)
    assert found.texts.to_numpy().tolist() == [list(text) for text in LISTS.texts]
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_benchmark_that_is_damaged_is_refused(world, tmp_path):
    prepare(world, tmp_path)
    path = tmp_path / "8x200.npz"
    content = path.read_bytes()
    path.write_bytes(content[:5000] + bytes(8) + content[5008:])
    with pytest.raises(UserError, match=r"8x200\.npz: is not readable as CheXpert 8×200 \(Bad CRC-32 .*\)\. Remove it and"):
        read_benchmark(path)
    path.write_bytes(content[:-9])
    with pytest.raises(UserError, match=r"it is no \.npz archive, or its end is missing"):
        read_benchmark(path)
    path.unlink()
    with pytest.raises(UserError, match="does not exist, expected the images of CheXpert 8×200"):
        read_benchmark(path)


def test_images_that_are_missing_are_named(world, tmp_path):
    write_convirt_lists(tmp_path / "convirt", LISTS)
    settings = {"path": tmp_path, "lists": tmp_path / "convirt", "resolution": 8}
    where = {"benchmark": tmp_path / "8x200.npz", "cache": tmp_path / "cache", "threads": 1}
    with pytest.raises(
        UserError, match=r"has no folder train \(found convirt\), the images of CheXpert\. It is part of CheXpert"
    ):
        prepare_chexpert_8x200(settings, **where)
    write_chexpert_pictures(tmp_path, LISTS.candidates)
    with pytest.raises(UserError, match=rf"{LISTS.images[0][0]}: is not there, expected an image\. It is part of CheXpert"):
        prepare_chexpert_8x200(settings, **where)
    assert not (tmp_path / "8x200.npz").exists()


def test_what_a_machine_without_the_data_lacks(world, tmp_path):
    first, second = missing_of_8x200({"path": tmp_path, "lists": tmp_path / "no"})
    assert (
        "image-retrieval/candidate.csv, image-retrieval/query.csv, text-retrieval/query.csv, text-retrieval/candidate.csv"
        in first
    )
    assert "https://github.com/yuhaozhang/convirt" in first
    assert "the radiographs, train/ in" in second
    assert "https://stanfordmlgroup.github.io/competitions/chexpert/" in second
    assert missing_files({"path": world}) == missing_of_8x200({"path": world, "lists": world / "convirt"}) == []

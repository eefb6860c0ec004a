"""ConVIRT's 8×200 lists and CheXpert's images; errors name missing, damaged and incomplete
files.
"""

import os
import shutil
import stat

import numpy as np
import pytest
from PIL import Image

from tests.data.official_layouts import (
    EIGHT,
    chexpert_8x200,
    write_chexpert_pictures,
    write_convirt_lists,
)
from trueneg.data.image_cache import decode_square
from trueneg.data.pairs.chexpert_8x200 import (
    missing_files,
    prepare_chexpert_8x200,
    read_benchmark,
    read_lists,
)
from trueneg.errors import UserError
from trueneg.specs.kinds.pairs import ImageTextEvaluationSettings
from trueneg.store.data_input import of_benchmark

LISTS = chexpert_8x200()


@pytest.fixture
def lists(tmp_path):
    write_convirt_lists(tmp_path / "convirt", LISTS)
    return tmp_path / "convirt"


def test_the_lists_are_read(lists):
    candidates, images, texts = read_lists(lists)
    for table, expected in ((candidates, LISTS.candidates), (images, LISTS.images)):
        assert list(zip(table["path"], table["label"], strict=True)) == expected
    assert list(zip(texts["sentence"], texts["label"], strict=True)) == LISTS.texts
    assert images["patient"].tolist() == [path.split("/")[1] for path, _ in LISTS.images]


CANDIDATES, QUERIES, TEXTS = (
    "image-retrieval/candidate.csv",
    "image-retrieval/query.csv",
    "text-retrieval/query.csv",
)
FIRST, QUERY = LISTS.candidates[0], LISTS.images[0]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            QUERIES,
            QUERY[0],
            FIRST[0],
            r"query\.csv contains 1 images that are also candidates; expected none",
        ),
        (QUERIES, QUERY[0], LISTS.images[1][0], r"query\.csv: line 3: Path repeats"),
        (
            QUERIES,
            QUERY[0],
            "train/nobody.jpg",
            r"line 2: Path is '.*/train/nobody\.jpg'; expected an image .* training split",
        ),
        (
            QUERIES,
            QUERY[0],
            QUERY[0].replace("train", "valid"),
            r"line 2: Path is '.*'; expected an image .* training split",
        ),
        (
            QUERIES,
            "Pneumonia,",
            "Flu,",
            r"line 5: Variable is 'Flu'; expected one of No Finding, Cardiomegaly",
        ),
        (
            TEXTS,
            "Edema,Sentence 2 ",
            "Fracture,Sentence 2 ",
            r"text-retrieval/query\.csv has 4 rows for Edema; expected 5",
        ),
        (
            TEXTS,
            "Sentence 9 on cardiomegaly.",
            "Sentence 1 on cardiomegaly.",
            r"line 11: Text repeats",
        ),
        (TEXTS, "Sentence 9 on cardiomegaly.", " ", "line 11: Text is ' '; expected a sentence"),
        (
            TEXTS,
            "Text",
            "Sentence",
            r"query\.csv: expected exactly one column .*: Text \(found Variable, Sentence\)",
        ),
    ],
)
def test_invalid_lists_are_rejected(lists, name, old, new, message):
    path = lists / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError, match=message) as error:
        read_lists(lists)
    assert "It is part of https://github.com/yuhaozhang/convirt" in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda lines: lines[:-1],
            rf"candidate\.csv has 199 rows for {LISTS.candidates[-1][1]}; expected 200",
        ),
        (
            lambda lines: [lines[0], lines[1].replace("1.0,", "0.0,"), *lines[2:]],
            r"candidate\.csv: line 2 .*exactly one",
        ),
        (
            lambda lines: [lines[0], lines[1].replace("0.0,", "1.0,"), *lines[2:]],
            r"candidate\.csv: line 2 .*exactly one",
        ),
    ],
)
def test_incomplete_candidates_are_rejected(lists, change, message):
    path = lists / CANDIDATES
    path.write_text("\n".join(change(path.read_text().split("\n"))))
    with pytest.raises(UserError, match=message):
        read_lists(lists)


def test_missing_lists_are_named(lists):
    (lists / TEXTS).unlink()
    with pytest.raises(
        UserError, match=r"text-retrieval/query\.csv is missing.*It is part of https"
    ):
        read_lists(lists)
    with pytest.raises(
        UserError, match=r"none/image-retrieval/candidate\.csv is missing.*\(found no such folder"
    ):
        read_lists(lists / "none")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chexpert")
    write_convirt_lists(folder / "convirt", LISTS)
    write_chexpert_pictures(folder / "CheXpert-v1.0-small", (*LISTS.candidates, *LISTS.images))
    return folder


def prepare(world, out, **changes):
    settings = {"path": world, "lists": world / "convirt", "resolution": 8} | changes
    prepare_chexpert_8x200(settings, benchmark=out / "8x200.npz", cache=out / "cache", threads=1)
    return read_benchmark(out / "8x200.npz")


def test_the_benchmark_contains_the_listed_images_and_only_the_owner_can_read_it(world, tmp_path):
    benchmark = prepare(world, tmp_path)
    everything = (*LISTS.candidates, *LISTS.images)
    assert benchmark.images.shape == (1680, 1, 8, 8)
    for place in (0, 1, 700, 1599, 1600, 1679):
        path, label = everything[place]
        content = (world / "CheXpert-v1.0-small" / path).read_bytes()
        np.testing.assert_array_equal(benchmark.images[place], decode_square(content, "L", 8))
        assert benchmark.label_names[benchmark.labels[place]] == label
        assert benchmark.patients[place] == path.split("/")[1]
    assert benchmark.is_query.tolist() == [False] * 1600 + [True] * 80
    assert sorted(benchmark.label_names) == sorted(EIGHT)
    assert benchmark.texts.to_numpy().tolist() == [list(text) for text in LISTS.texts]
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_lateral_images_in_the_lists_are_read(world, tmp_path):
    shutil.copytree(world, tmp_path / "world", copy_function=os.link)
    for path, _ in (LISTS.candidates[0], LISTS.images[0]):
        picture = tmp_path / "world/CheXpert-v1.0-small" / path
        picture.rename(picture.with_name("view2_lateral.jpg"))
    for name in (CANDIDATES, QUERIES):
        file = tmp_path / "world/convirt" / name
        head, first, *others = file.read_text().splitlines()
        file.unlink()  # a hard link
        file.write_text("\n".join([head, first.replace("view1_frontal", "view2_lateral"), *others]))
    benchmark, expected = (
        prepare(tmp_path / "world", tmp_path),
        prepare(world, tmp_path / "expected"),
    )
    np.testing.assert_array_equal(benchmark.images, expected.images)
    assert benchmark.labels.tolist() == expected.labels.tolist()
    candidates, queries, _ = read_lists(tmp_path / "world/convirt")
    assert candidates["path"][0].endswith("view2_lateral.jpg")
    assert queries["path"][0].endswith("view2_lateral.jpg")


def test_images_are_stretched_if_the_study_stretches_its_images(world, tmp_path):
    shutil.copytree(world, tmp_path / "world")
    picture = tmp_path / "world" / "CheXpert-v1.0-small" / LISTS.candidates[0][0]
    Image.fromarray(
        np.arange(400, dtype=np.uint16).reshape(10, 40).clip(0, 255).astype(np.uint8)
    ).save(picture)
    content = picture.read_bytes()
    benchmark = prepare(tmp_path / "world", tmp_path, fit="stretch")
    np.testing.assert_array_equal(benchmark.images[0], decode_square(content, "L", 8, "stretch"))
    assert (decode_square(content, "L", 8, "stretch") != decode_square(content, "L", 8)).any()
    lists = ImageTextEvaluationSettings(
        chexpert_8x200={"path": "images", "lists": "lists"}
    ).chexpert_8x200
    stretched, *cropped = (
        of_benchmark(lists, {"resolution": 8} | fit)
        for fit in ({"fit": "stretch"}, {"fit": "crop"}, {})
    )
    assert stretched.settings["fit"] == "stretch"
    assert cropped[0] == cropped[1]
    assert stretched.place != cropped[0].place


def test_a_damaged_benchmark_is_rejected(world, tmp_path):
    prepare(world, tmp_path)
    path = tmp_path / "8x200.npz"
    content = path.read_bytes()
    path.write_bytes(content[:5000] + bytes(8) + content[5008:])
    with pytest.raises(UserError, match=r"8x200\.npz: .*CheXpert 8×200 \(.*CRC-32.*Remove it"):
        read_benchmark(path)
    path.write_bytes(content[:-9])
    with pytest.raises(UserError, match=r"not an \.npz archive, or its end is missing"):
        read_benchmark(path)
    path.unlink()
    with pytest.raises(UserError, match="does not exist; expected a file of CheXpert 8×200"):
        read_benchmark(path)


def test_missing_images_are_named(world, tmp_path):
    write_convirt_lists(tmp_path / "convirt", LISTS)
    settings = {"path": tmp_path, "lists": tmp_path / "convirt", "resolution": 8}
    where = {"benchmark": tmp_path / "8x200.npz", "cache": tmp_path / "cache", "threads": 1}
    with pytest.raises(
        UserError,
        match=(
            r"train is missing; expected the radiographs \(found convirt\)\. It is part of CheXpert"
        ),
    ):
        prepare_chexpert_8x200(settings, **where)
    write_chexpert_pictures(tmp_path, LISTS.candidates)
    with pytest.raises(
        UserError,
        match=rf"{LISTS.images[0][0]} is missing; expected an image\. It is part of CheXpert",
    ):
        prepare_chexpert_8x200(settings, **where)
    assert not (tmp_path / "8x200.npz").exists()


def test_missing_files_are_listed_with_their_origin(world, tmp_path):
    lists, radiographs = missing_files({"path": tmp_path, "lists": tmp_path / "no"})
    for name in (CANDIDATES, QUERIES, TEXTS):
        assert name in lists
    assert "https://github.com/yuhaozhang/convirt" in lists
    assert radiographs.startswith("train (the radiographs) in ")
    assert "https://stanfordmlgroup.github.io/competitions/chexpert/" in radiographs
    assert missing_files({"path": world, "lists": world / "convirt"}) == []

"""A user's own images, in one folder per class (compared with torchvision's ImageFolder) or in
parquet files of dataset hubs.
"""

import contextlib
import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.datasets import ImageFolder

from tests.data.image_layouts import (
    CLASSES,
    IMAGE,
    pngs,
    random_images,
    write_classes,
    write_parquet,
)
from tests.data.pictures import encoded, picture, write_picture
from trueneg.data import decoding
from trueneg.data.arrays import content_hash
from trueneg.data.images.image_source import ImageSource, read_source, write_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.sources import image_folder, parquet
from trueneg.data.images.subsets import image_subset, make_subset
from trueneg.errors import UserError


def images_of_classes(names):
    """Return a source with four images of each class."""
    labels = np.repeat(np.arange(len(names)), 4)
    images = np.zeros((len(labels), 1, 2, 2), np.uint8)
    return ImageSource("made up", images, labels, np.zeros(len(labels), bool), tuple(names))


def load_folder(path, **options):
    return load_source("image_folder", path=path, **options)


def load_parquet(path, **options):
    return load_source("parquet", path=path, **options)


def torchvision_images(folder: Path) -> tuple[np.ndarray, list[int]]:
    """Return the images (n, 3, H, W) and labels that torchvision reads."""
    dataset = ImageFolder(folder)
    return np.stack([np.asarray(image).transpose(2, 0, 1) for image, _ in dataset]), dataset.targets


def write_own(source: str, folder: Path, split: str, class_names, widths=None) -> None:
    """Write one picture per class name, in the layout of either source."""
    widths = widths or [40] * len(class_names)
    if source == "parquet":
        contents = [encoded(picture(number, width)) for number, width in enumerate(widths)]
        folder.mkdir(exist_ok=True)
        write_parquet(folder / f"{split}.parquet", contents, list(class_names))
    else:
        for number, (name, width) in enumerate(zip(class_names, widths, strict=True)):
            write_picture(folder / split / name / f"{number}.png", number, width=width)


both_sources = pytest.mark.parametrize("source", ["image_folder", "parquet"])


@both_sources
def test_numeric_class_names_are_sorted_by_value(tmp_path, source):
    write_own(source, tmp_path, "train", ("10", "9", "2"))
    loaded = load_source(source, path=tmp_path)
    assert loaded.class_names == ("2", "9", "10")
    first = np.asarray(picture(2)).transpose(2, 0, 1)  # of class 2
    assert np.array_equal(loaded.images[loaded.labels == 0], first[None])


@both_sources
def test_both_unicode_forms_of_a_name_are_one_class(tmp_path, source):
    write_own(source, tmp_path, "train", ("Bär", "cat"))
    write_own(source, tmp_path, "test", ("Ba\u0308r", "cat"))
    loaded = load_source(source, path=tmp_path)
    assert loaded.class_names == ("Bär", "cat")
    assert loaded.labels.tolist() == [0, 1, 0, 1]


@both_sources
@pytest.mark.parametrize("split", ["train", "test"])
def test_images_of_different_sizes_need_a_resolution(tmp_path, source, split):
    for each in ("train", "test"):
        write_own(source, tmp_path, each, ("cat", "dog"), [40, 41] if each == split else [40, 40])
    with pytest.raises(
        UserError, match=rf"{split}.* 41 × 30 pixels; expected 40 × 30 .*dataset.resolution"
    ):
        load_source(source, path=tmp_path)
    assert load_source(source, path=tmp_path, resolution=8).images.shape == (4, 3, 8, 8)


@both_sources
def test_an_unusable_path_is_reported(tmp_path, source):
    with pytest.raises(
        UserError, match=f"dataset.path is missing; source {source} expects a folder"
    ):
        load_source(source, path=None)
    with pytest.raises(UserError, match=r"nowhere.*found no such folder.*expected"):
        load_source(source, path=tmp_path / "nowhere")
    with pytest.raises(UserError, match="found an empty folder"):
        load_source(source, path=tmp_path)
    for name in "abcdefg":
        (tmp_path / name).touch()
    with pytest.raises(UserError, match="found a, b, c, d, e and 2 more"):
        load_source(source, path=tmp_path)
    with pytest.raises(UserError, match="is a file; expected a folder"):
        load_source(source, path=tmp_path / "a")
    with pytest.raises(UserError, match=f"source {source} reads your own files"):
        load_source(source, path=tmp_path, download=True)


@both_sources
def test_a_study_without_test_images_must_state_what_to_hold_out(tmp_path, source):
    write_classes(tmp_path / "own", images=8)
    study = {"source": source, "path": "own", "fraction": 1.0, "rare_classes": []}
    study |= {"images_per_class": None, "validation": 0.2, "test": None}
    images = load_folder(tmp_path / "own")
    with pytest.raises(UserError, match=r"own has no .*set dataset.test"):
        image_subset(images, study, 0)
    subset = image_subset(images, study | {"test": 0.25}, 0)
    assert np.bincount(images.labels[subset.test]).tolist() == [2, 2, 2]


@pytest.mark.parametrize("names", [("1", "2", "3"), ("001", "002", "003"), ("2", "1", "0")])
def test_a_number_that_is_both_a_class_name_and_another_index_is_ambiguous(names):
    source = images_of_classes(names)
    with pytest.raises(
        UserError, match=r"rare_classes contains 2, but the class named 0*2 is number [01]"
    ):
        make_subset(source, seed=0, rare_classes=[2])


def test_classes_are_named_by_number_or_name():
    by_both = make_subset(images_of_classes("012"), seed=0, rare_classes=[0, "2"])
    assert by_both.rare_classes == [0, 2]
    by_number = make_subset(images_of_classes(("cat", "dog")), seed=0, rare_classes=[1])
    assert by_number.rare_classes == [1]


# One folder per class


def test_folders_are_read_as_by_torchvision(tmp_path):
    write_classes(tmp_path)
    for number, place in enumerate(
        ["cat/a/1.png", "cat/a-b/1.png", "cat/a/x/1.jpg", "cat/10.png", "dog/Z.png", "dog/a.png"]
    ):
        write_picture(tmp_path / place, 50 + number)
    (tmp_path / "dog/notes.txt").touch()
    source = load_folder(tmp_path)
    images, labels = torchvision_images(tmp_path)
    assert np.array_equal(source.images, images)
    assert source.labels.tolist() == labels
    assert source.class_names == tuple(ImageFolder(tmp_path).classes)
    assert not source.is_test.any()


def test_train_and_test_are_each_read_as_by_torchvision(tmp_path):
    write_classes(tmp_path / "train")
    assert np.array_equal(load_folder(tmp_path).images, load_folder(tmp_path / "train").images)
    write_classes(tmp_path / "test", images=2, first=100)
    source = load_folder(tmp_path)
    for split, chosen in (("train", ~source.is_test), ("test", source.is_test)):
        images, labels = torchvision_images(tmp_path / split)
        assert np.array_equal(source.images[chosen], images)
        assert source.labels[chosen].tolist() == labels
    assert source.is_test.tolist() == [False] * 9 + [True] * 6


def test_a_class_may_be_called_train(tmp_path):
    write_classes(tmp_path, ("bus", "test", "train"))
    assert load_folder(tmp_path).class_names == ("bus", "test", "train")


def test_a_folder_is_greyscale_only_if_all_its_images_are(tmp_path):
    write_classes(tmp_path, mode="L")
    assert load_folder(tmp_path).images.shape == (9, 1, 30, 40)
    write_picture(tmp_path / "dog/9.png", 99)
    assert np.array_equal(load_folder(tmp_path).images, torchvision_images(tmp_path)[0])


def test_hidden_files_and_folders_are_ignored_and_other_files_counted(tmp_path, caplog):
    expected = load_folder(write_classes(tmp_path / "own")).checksum
    for place in (".ipynb_checkpoints/1.png", "cat/.thumbnails/1.png"):
        write_picture(tmp_path / "own" / place, 1)
    for place in ("cat/.DS_Store", "README.md"):
        (tmp_path / "own" / place).touch()
    assert load_folder(tmp_path / "own").checksum == expected
    assert not caplog.messages
    for place in ("cat/Thumbs.db", "dog/labels.csv"):
        (tmp_path / "own" / place).touch()
    assert load_folder(tmp_path / "own").checksum == expected
    (warning,) = caplog.messages
    assert "2 files" in warning
    assert "Thumbs.db" in warning


def test_links_out_of_the_folder_are_followed(tmp_path):
    write_classes(tmp_path / "elsewhere")
    (tmp_path / "own/cat").mkdir(parents=True)
    (tmp_path / "own/bird").symlink_to(tmp_path / "elsewhere/bird")
    (tmp_path / "own/dog").symlink_to("../elsewhere/dog")
    for file in (tmp_path / "elsewhere/cat").iterdir():
        (tmp_path / "own/cat" / file.name).symlink_to(file)
    assert load_folder(tmp_path / "own").checksum == load_folder(tmp_path / "elsewhere").checksum


def test_the_order_does_not_depend_on_the_file_system(tmp_path, monkeypatch):
    write_classes(tmp_path)
    expected, walk = load_folder(tmp_path).checksum, os.walk
    monkeypatch.setattr(
        os, "walk", lambda *arguments, **options: reversed(list(walk(*arguments, **options)))
    )
    assert load_folder(tmp_path).checksum == expected


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda own: (own / "cow").mkdir(),
            r"own/cow: found an empty folder; expected images \(.*\.png",
        ),
        (lambda own: write_picture(own / "1.png", 1), r"own/1.png .* class folder"),
        (
            lambda own: (own / "cat/1.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0"),
            r"own/cat/1.heic is in another format .*onvert it",
        ),
        (
            lambda own: (own / "dog/2.JPEG").write_bytes(b"GIF89a"),
            r"own/dog/2.JPEG is empty, damaged.*PNG.*JPEG",
        ),
        (lambda own: (own / "cat/0.png").write_bytes(b""), r"own/cat/0.png .*PNG.*JPEG"),
        (
            lambda own: list(map(cut, (own / "dog/0.png", own / "cat/1.jpg"))),
            r"own/cat/1.jpg .*damaged",
        ),
        (lambda own: (own / "cat/4.png").symlink_to("x"), r"own/cat/4.png .*no readable content"),
        (lambda own: (own / "cat/up").symlink_to(own), r"own/cat/up/cat .*own/cat\b"),
        (lambda own: write_classes(own, ("d\nog",)), r"own .*'d\\nog'; expected printable"),
        (lambda own: write_classes(own / "val"), r"own .*folders bird, cat, dog, val; expected"),
    ],
    ids=[
        "empty class",
        "no class",
        "format",
        "no image",
        "empty file",
        "cut",
        "dead link",
        "circle",
        "name",
        "validation",
    ],
)
def test_an_unusable_folder_or_image_is_named(tmp_path, damage, message):
    write_classes(tmp_path / "own")
    damage(tmp_path / "own")
    with pytest.raises(UserError, match=message):
        load_folder(tmp_path / "own")


def test_several_mistakes_are_reported_at_once(tmp_path):
    write_classes(tmp_path)
    (tmp_path / "cow").mkdir()
    (tmp_path / "ewe").mkdir()
    with pytest.raises(UserError, match=r"(?s)cow.*ewe|ewe.*cow"):
        load_folder(tmp_path)
    for name in ("cow", "ewe"):
        (tmp_path / name).rmdir()
    cut(tmp_path / "dog/0.png")
    (tmp_path / "dog/1.tiff").touch()
    with pytest.raises(UserError, match=r"(?s)dog/0\.png is damaged.*dog/1\.tiff is empty"):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        ("val", "test"),
        ("train", "val", "valid"),
        ("test",),
        ("train", "extra"),
        ("Train", "Training", "test"),
        ("seg_pred", "seg_test", "seg_train"),
    ],
)
def test_folders_of_other_splits_are_never_read_as_classes(tmp_path, names):
    for name in names:
        write_classes(tmp_path / name, images=1)
    with pytest.raises(UserError, match=rf"folders {', '.join(sorted(names))}; expected train"):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    ("train", "validation", "test"),
    [
        ("seg_train/seg_train", None, "seg_test/seg_test"),
        ("Train", "Valid", "Test"),
        ("archive/training", "archive/validation", "archive/testing"),
        ("train2017/images", "val2017", "test2017/a/b"),
    ],
)
def test_folders_of_splits_are_found_by_any_usual_name_at_any_depth(
    tmp_path, train, validation, test
):
    expected = {"train": train, "validation": validation, "test": test}
    for number, place in enumerate(filter(None, expected.values())):
        write_classes(tmp_path / place, images=number + 1, first=10 * number)
    listed = image_folder.listed(tmp_path)
    assert listed.class_names == CLASSES
    assert listed.is_test.sum() == 3 * (3 if validation else 2)
    assert listed.is_validation.sum() == (6 if validation else 0)
    for place, is_test in zip(listed.images.places, listed.is_test, strict=True):
        assert (tmp_path / test in place.parents) == is_test
    files = {file for file in tmp_path.rglob("*") if file.is_file()}
    assert set(image_folder.user_files({"path": tmp_path}).images) == files


def test_splits_within_classes_are_refused(tmp_path):
    for name in CLASSES:
        write_classes(tmp_path / name, ("train", "test"), images=1)
    with pytest.raises(UserError, match=r"cat: found test, train; expected.*train/cat"):
        image_folder.listed(tmp_path)


def test_words_of_splits_in_the_names_of_classes_do_not_make_them_splits(tmp_path):
    names = ("bus", "test_tube", "train_station")
    for name in names:
        write_picture(tmp_path / name / "2020/1.png", 1)
    assert image_folder.listed(tmp_path).class_names == names


def test_thumbnails_that_servers_add_are_ignored(tmp_path):
    write_classes(tmp_path)
    expected = image_folder.listed(tmp_path).images.places
    for place in ("@eaDir/1.png", "cat/@eaDir/0.png/SYNOPHOTO_THUMB_M.jpg", "__MACOSX/cat/1.png"):
        write_picture(tmp_path / place, 1)
    assert image_folder.listed(tmp_path).images.places == expected


@pytest.mark.parametrize(("missing", "present"), [("train", "test"), ("test", "train")])
def test_a_class_in_one_split_only_is_named(tmp_path, missing, present):
    write_classes(tmp_path / present, images=1)
    write_classes(tmp_path / missing, CLASSES[:2], images=1)
    with pytest.raises(
        UserError,
        match=(
            r"class dog is not in all splits; expected the same classes in train and test \(.*\b1\)"
        ),
    ):
        load_folder(tmp_path)


@both_sources
@pytest.mark.parametrize("name", ["val", "valid", "validation"])
@pytest.mark.parametrize("official", [True, False])
def test_a_validation_split_of_the_users_own_is_used_for_every_seed(
    tmp_path, source, name, official
):
    """Two training, one validation and one test image per class; the digits of a picture's number
    are its split and class.
    """
    folder = tmp_path / "own"
    # the numbers of its pictures
    for number, split in enumerate(["train", "train", name, *(["test"] if official else ())]):
        if source == "parquet":
            file = "train-00000-of-00001" if split == "train" else f"{split}-00000-of-00001"
            write_parquet_once(folder / f"{file}.parquet", number, CLASSES)
        else:
            for label, each in enumerate(CLASSES):
                write_picture(folder / split / each / f"{number}.png", 10 * number + label)
    if source == "parquet":
        listed = {file.name.split("-")[0] for file in parquet.user_files({"path": folder}).files}
        assert listed == {"train", name, *(["test"] if official else ())}
    images = load_source(source, path=folder)
    expected = {
        10 * number + label: number for number in range(4 if official else 3) for label in range(3)
    }
    by_pixels = {np.array(picture(key)).tobytes(): number for key, number in expected.items()}
    numbers = np.array([by_pixels[np.moveaxis(pixels, 0, 2).tobytes()] for pixels in images.images])
    assert images.is_validation.tolist() == (numbers == 2).tolist()
    assert images.is_test.tolist() == (numbers == 3).tolist()
    path = tmp_path / "source.npz"
    write_source(images, path)
    assert read_source(path).is_validation.tolist() == images.is_validation.tolist()
    unmarked = dataclasses.replace(images, is_validation=None)
    assert unmarked.checksum != images.checksum
    digest = content_hash(images.images, images.labels, images.is_test).hexdigest()
    assert unmarked.checksum == digest  # as before there were validation splits
    for seed in range(3):
        subset = make_subset(images, seed=seed, validation=0.5, test=None if official else 0.5)
        assert subset.validation.tolist() == np.flatnonzero(numbers == 2).tolist()
        assert set(numbers[subset.train]) == {0, 1} or not official
        assert set(numbers[subset.test]) == {3} if official else set(numbers[subset.test]) <= {0, 1}
    with pytest.raises(
        UserError,
        match=(
            r"dataset.validation is 0, but source own has a validation split; remove"
            r" dataset.validation"
        ),
    ):
        make_subset(images, seed=0, validation=0, test=None if official else 0.5)


def write_parquet_once(path, number, class_names):
    """Write one picture per class, or add them to those of the file."""
    path.parent.mkdir(exist_ok=True)
    numbers = [10 * number + label for label in range(len(class_names))]
    labels = list(class_names)
    if number == 1:
        numbers, labels = [*range(len(class_names)), *numbers], labels * 2
    write_parquet(path, [encoded(picture(each)) for each in numbers], labels)


def test_fewer_than_two_classes_are_reported(tmp_path):
    write_classes(tmp_path / "images")
    with pytest.raises(
        UserError, match=r"found images; expected at least two subfolders.*dataset.path"
    ):
        load_folder(tmp_path)
    for split in ("train", "test"):
        write_picture(tmp_path / f"flat/{split}/1.png", 1)
    with pytest.raises(
        UserError, match=r"flat/train: found 1.png; expected at least two subfolders"
    ):
        load_folder(tmp_path / "flat")


def test_a_folder_without_read_permission_is_reported(tmp_path, monkeypatch):
    """Permissions do not bind root, so the error is raised by hand."""
    write_classes(tmp_path)

    def scandir(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(UserError, match=r"cat .*\(Permission denied\); expected a folder"):
        image_folder._files(tmp_path / "cat")


# Parquet files


def test_lossless_images_are_read_unchanged_from_either_column(tmp_path):
    images = random_images(7)
    write_parquet(tmp_path / "train.parquet", pngs(images[:5]), [0, 1, 2, 1, 0], "img")
    write_parquet(tmp_path / "test.parquet", pngs(images[5:]), [2, 1], "image")
    source = load_parquet(tmp_path)
    assert np.array_equal(source.images, images.transpose(0, 3, 1, 2))
    assert source.labels.tolist() == [0, 1, 2, 1, 0, 2, 1]
    assert source.is_test.tolist() == [False] * 5 + [True] * 2
    assert source.class_names == ("0", "1", "2")


def test_images_keep_their_order_across_threads_batches_row_groups_and_shards(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(decoding, "IMAGES_AT_ONCE", 30)
    images, labels = random_images(1500, (2, 2, 3)), np.arange(1500) % 10
    for shard in range(3):
        part = slice(500 * shard, 500 * (shard + 1))
        path = tmp_path / f"train-0000{shard}-of-00003.parquet"
        write_parquet(path, pngs(images[part]), labels[part], row_group_size=170)
    source = load_parquet(tmp_path)
    assert np.array_equal(source.images, images.transpose(0, 3, 1, 2))
    assert np.array_equal(source.labels, labels)
    assert not source.is_test.any()


def test_jpeg_is_decoded_as_by_pillow(tmp_path):
    write_picture(tmp_path / "picture.jpg", 0)
    write_parquet(tmp_path / "train.parquet", [(tmp_path / "picture.jpg").read_bytes()], [0])
    expected = np.asarray(Image.open(tmp_path / "picture.jpg").convert("RGB")).transpose(2, 0, 1)
    assert np.array_equal(load_parquet(tmp_path).images[0], expected)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_parquet_files_are_greyscale_only_if_all_their_images_are(tmp_path, order):
    grey, colour = random_images(1, (4, 4))[0], random_images(1, (4, 4, 3))[0]
    write_parquet(tmp_path / "train.parquet", pngs([grey, grey]), [0, 0])
    assert np.array_equal(load_parquet(tmp_path).images, np.stack([grey[None]] * 2))
    expected = np.stack([np.stack([grey] * 3), colour.transpose(2, 0, 1)])
    write_parquet(tmp_path / "train.parquet", pngs([grey, colour])[order], [0, 0])
    assert np.array_equal(load_parquet(tmp_path).images, expected[order])


def test_class_names_and_their_order_come_from_the_metadata_of_the_hub(tmp_path):
    features = {"label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}
    metadata, contents = (
        {"huggingface": json.dumps({"info": {"features": features}})},
        pngs(random_images(2)),
    )
    for labels in ([1, 0], ["cat", "dog"]):
        write_parquet(tmp_path / "train.parquet", contents, labels, metadata=metadata)
        source = load_parquet(tmp_path)
        assert (source.class_names, source.labels.tolist()) == (("dog", "cat"), [1, 0])
    for labels, message in (
        ([0, 2], "is 2; expected .*0 to 1"),
        (["cat", "cow"], "is 'cow'; expected .*: dog, cat"),
    ):
        write_parquet(tmp_path / "train.parquet", contents, labels, metadata=metadata)
        with pytest.raises(UserError, match=rf"label in row 1 .* {message}"):
            load_parquet(tmp_path)
    write_parquet(tmp_path / "test.parquet", contents, [0, 1])
    with pytest.raises(UserError, match=r"train\.parquet names 2 classes; expected 10"):
        load_source("cifar10", path=tmp_path)


@pytest.mark.parametrize(
    "metadata", [{"huggingface": "no JSON"}, {"huggingface": "[1]"}, {"other": "x"}]
)
def test_metadata_without_class_names_is_ignored(tmp_path, metadata):
    write_parquet(tmp_path / "train.parquet", pngs(random_images(2)), [0, 1], metadata=metadata)
    assert load_parquet(tmp_path).class_names == ("0", "1")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, -1], r"row 1 .* is -1; expected 0 to "),
        ([0, 2**62], r"row 1 .* is 4611686018427387904; expected 0 to 2147483648"),
        ([None, 0], r"1 of 2 images have no label, first in row 0"),
        ([0, 2], "largest label is 2, but no image has label 1"),
        ([1, 1], "largest label is 1, but no image has label 0"),
        (["cat", None], r"1 of 2 images have no label, first in row 1"),
        (["\u00a0", " "], r"2 of 2 images have no label, first in row 0"),
        ([0.0, float("nan")], r"1 of 2 images have no label, first in row 1"),
        ([0.0, 0.5], r"row 1 .* is 0\.5; expected .*whole number"),
        ([0.0, float("inf")], r"row 1 .* is inf; expected .*whole number"),
        (["cat", "d\nog"], r"1 of 2 images have no label, first in row 1 .*printable name"),
        ([[0], [1]], "label: list<.*; expected .* label: int64"),
    ],
)
def test_invalid_labels_are_reported(tmp_path, labels, message):
    write_parquet(tmp_path / "train.parquet", pngs(random_images(2)), labels)
    with pytest.raises(UserError, match=message):
        load_parquet(tmp_path)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_labels_may_be_class_names_of_any_string_type(tmp_path, kind):
    write_parquet(
        tmp_path / "train.parquet",
        pngs(random_images(3)),
        pa.array(["dog", "cat", "dog"]).cast(kind),
    )
    source = load_parquet(tmp_path)
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [1, 0, 1]
    assert source.labels.dtype == np.int64


def test_labels_may_be_class_numbers_of_any_integer_type(tmp_path):
    write_parquet(tmp_path / "train.parquet", pngs(random_images(2)), np.array([1, 0], np.uint8))
    assert load_parquet(tmp_path).labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        ([1.0, 0.0, 1.0], ("0", "1"), [1, 0, 1]),
        (np.array([1, 0, 1], np.float16), ("0", "1"), [1, 0, 1]),
        ([True, False, True], ("0", "1"), [1, 0, 1]),
        (["caf\u00e9 ", "bar", "\u200bcafe\u0301"], ("bar", "caf\u00e9"), [1, 0, 1]),
    ],
)
def test_labels_of_one_class_may_be_spelled_differently(tmp_path, labels, names, numbers):
    write_parquet(tmp_path / "train.parquet", pngs(random_images(3)), pa.array(labels))
    source = load_parquet(tmp_path)
    assert (source.class_names, source.labels.tolist(), source.labels.dtype) == (
        names,
        numbers,
        np.int64,
    )


def test_files_with_numbers_and_files_with_names_do_not_mix(tmp_path):
    for split, labels in (("train", ["cat", "dog"]), ("test", [0, 1])):
        write_parquet(tmp_path / f"{split}.parquet", pngs(random_images(2)), labels)
    with pytest.raises(UserError, match="label is a number in some files and a name in others"):
        load_parquet(tmp_path)


@pytest.mark.parametrize(
    ("table", "present"),
    [
        ({"photo": pa.array([b""]), "label": [0]}, "photo: binary, label: int64"),
        ({"img": pa.array([None], IMAGE)}, "img: struct<bytes: binary, path: string>"),
        ({"img": pa.array(["x"]), "label": [0]}, "img: string, label: int64"),
        (
            {"image": pa.array([{"path": "x.png"}]), "label": [0]},
            "image: struct<path: string>, label: int64",
        ),
    ],
)
def test_other_columns_are_reported(tmp_path, table, present):
    pq.write_table(pa.table(table), tmp_path / "train.parquet")
    with pytest.raises(
        UserError,
        match=rf"columns {present}; expected img or image: struct<bytes.* and label: int64",
    ):
        load_parquet(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no readable content"),
        (b"", "is empty, damaged"),
        (b"GIF89a", "is empty, damaged.*expected a PNG"),
        (pngs(random_images(1))[0][:-40], "damaged"),
        (encoded(picture(0), "JPEG")[:-40], "damaged"),
        (encoded(Image.new("F", (4, 5)), "TIFF"), "unsupported variant"),
    ],
)
@pytest.mark.parametrize("row", [0, 700])
def test_all_unusable_images_are_reported_with_their_rows(tmp_path, content, message, row):
    contents = pngs(random_images(1)) * 1000
    contents[row] = contents[900] = content
    write_parquet(tmp_path / "train.parquet", contents, [0] * 1000)
    with pytest.raises(
        UserError,
        match=(
            rf"train.parquet, row {row} \(the first is 0\).* {message}.*\n.*, row 900 .*{message}"
        ),
    ):
        load_parquet(tmp_path)


def test_missing_shards_and_empty_tables_are_reported(tmp_path):
    write_parquet(tmp_path / "train-00001-of-00003.parquet", [], pa.array([], pa.int64()))
    with pytest.raises(UserError, match="1 of the 3 files of the train split"):
        load_parquet(tmp_path)
    (tmp_path / "train-00001-of-00003.parquet").rename(tmp_path / "train.parquet")
    with pytest.raises(UserError, match=r"train.parquet has 0 of 1 images in the train split"):
        load_parquet(tmp_path)


def test_a_damaged_page_is_reported_with_the_first_unreadable_row(tmp_path, monkeypatch):
    monkeypatch.setattr("trueneg.data.image_files.ROWS_AT_ONCE", 50)
    path, contents = tmp_path / "train.parquet", pngs(random_images(400))
    write_parquet(
        path, contents, [0] * 400, row_group_size=100, compression="none", write_page_checksum=True
    )
    content = bytearray(path.read_bytes())
    content[content.index(contents[250]) + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"train.parquet: the images from row 200 on .* cannot be read"
    ):
        load_parquet(tmp_path)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_truncated_parquet_file_is_reported(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("truncated") / "train.parquet"
    write_parquet(path, pngs(random_images(20)), [0] * 20)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(UserError, match=r"train.parquet: cannot be read as a parquet file"):
        load_parquet(path.parent)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_flipped_bit_is_reported_or_harmless(tmp_path_factory, data):
    path, images = tmp_path_factory.mktemp("flipped") / "train.parquet", random_images(20)
    write_parquet(path, pngs(images), [0] * 20, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with contextlib.suppress(UserError):
        assert np.array_equal(load_parquet(path.parent).images, images.transpose(0, 3, 1, 2))

"""Own images in one folder per class, compared with torchvision's ImageFolder, and the errors for other layouts."""

import os
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import ImageFolder

from tests.data.pictures import write_picture
from trueneg.data.images.loading import drawing_settings, load_source
from trueneg.data.images.sources import image_folder
from trueneg.data.images.subsets import make_subset
from trueneg.errors import UserError

CLASSES = ("bird", "cat", "dog")


def write_classes(folder: Path, classes=CLASSES, images=3, first=0, **how) -> Path:
    """A folder with PNG and JPEG files of each class."""
    for label, name in enumerate(classes):
        for number in range(images):
            suffix = (".png", ".jpg", ".JPEG")[number % 3]
            write_picture(folder / name / f"{number}{suffix}", first + 10 * label + number, **how)
    return folder


def load(path, **options):
    return load_source("image_folder", path=path, **options)


def of_torchvision(folder: Path) -> tuple[np.ndarray, list[int]]:
    """The images (n, 3, H, W) and labels that torchvision reads."""
    found = ImageFolder(folder)
    return np.stack([np.asarray(image).transpose(2, 0, 1) for image, _ in found]), found.targets


def test_images_labels_and_classes_are_those_of_torchvision(tmp_path):
    write_classes(tmp_path)
    for number, place in enumerate(["cat/a/1.png", "cat/a-b/1.png", "cat/a/x/1.jpg", "cat/10.png", "dog/Z.png", "dog/a.png"]):
        write_picture(tmp_path / place, 50 + number)
    (tmp_path / "dog/notes.txt").touch()
    source = load(tmp_path)
    images, labels = of_torchvision(tmp_path)
    assert np.array_equal(source.images, images)
    assert source.labels.tolist() == labels
    assert source.class_names == tuple(ImageFolder(tmp_path).classes)
    assert not source.is_test.any()


def test_train_and_test_are_each_read_as_torchvision_does(tmp_path):
    write_classes(tmp_path / "train")
    write_classes(tmp_path / "test", images=2, first=100)
    source = load(tmp_path)
    for split, chosen in (("train", ~source.is_test), ("test", source.is_test)):
        images, labels = of_torchvision(tmp_path / split)
        assert np.array_equal(source.images[chosen], images)
        assert source.labels[chosen].tolist() == labels
    assert source.is_test.tolist() == [False] * 9 + [True] * 6


def test_the_class_folders_may_be_in_train_alone(tmp_path):
    write_classes(tmp_path / "train")
    assert np.array_equal(load(tmp_path).images, load(tmp_path / "train").images)


def test_a_class_may_be_called_train(tmp_path):
    write_classes(tmp_path, ("bus", "test", "train"))
    assert load(tmp_path).class_names == ("bus", "test", "train")


def test_numbers_are_classes_in_the_order_of_their_values(tmp_path):
    write_classes(tmp_path, ("10", "9", "2"), images=1)
    source = load(tmp_path)
    assert source.class_names == ("2", "9", "10")
    assert np.array_equal(source.images[2], of_torchvision(tmp_path)[0][0])


def test_a_class_may_be_written_in_two_forms_of_unicode(tmp_path):
    write_classes(tmp_path / "train", ("Bär", "cat"))
    write_classes(tmp_path / "test", ("Ba\u0308r", "cat"))
    assert load(tmp_path).class_names == ("Bär", "cat")


def test_images_are_grey_only_if_all_are(tmp_path):
    write_classes(tmp_path, mode="L")
    assert load(tmp_path).images.shape == (9, 1, 30, 40)
    write_picture(tmp_path / "dog/9.png", 99)
    source = load(tmp_path)
    assert np.array_equal(source.images, of_torchvision(tmp_path)[0])


def test_images_of_several_sizes_need_a_resolution(tmp_path):
    write_classes(tmp_path)
    write_picture(tmp_path / "cat/3.png", 99, width=41)
    with pytest.raises(UserError, match=r"cat/3.png\b.* 41 × 30 pixels; expected 40 × 30 .*dataset.resolution"):
        load(tmp_path)
    assert load(tmp_path, resolution=8).images.shape == (10, 3, 8, 8)


def test_hidden_files_and_folders_are_ignored_and_other_files_counted(tmp_path, caplog):
    expected = load(write_classes(tmp_path / "own")).checksum
    write_picture(tmp_path / "own/.ipynb_checkpoints/1.png", 1)
    write_picture(tmp_path / "own/cat/.thumbnails/1.png", 1)
    (tmp_path / "own/cat/.DS_Store").touch()
    (tmp_path / "own/README.md").touch()
    assert load(tmp_path / "own").checksum == expected
    assert not caplog.messages
    (tmp_path / "own/cat/Thumbs.db").touch()
    (tmp_path / "own/dog/labels.csv").touch()
    assert load(tmp_path / "own").checksum == expected
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
    assert load(tmp_path / "own").checksum == load(tmp_path / "elsewhere").checksum


def test_the_order_does_not_depend_on_the_file_system(tmp_path, monkeypatch):
    write_classes(tmp_path)
    expected, walk = load(tmp_path).checksum, os.walk
    monkeypatch.setattr(os, "walk", lambda *given, **options: reversed(list(walk(*given, **options))))
    assert load(tmp_path).checksum == expected


def extra(folder, name):
    (folder / name).mkdir(parents=True)


def broken_picture(folder, name, content=b"GIF89a"):
    (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda own: extra(own, "cow"), r"own/cow: found an empty folder; expected PNG or JPEG", id="empty class"),
        pytest.param(lambda own: write_picture(own / "1.png", 1), r"own/1.png .* class folder", id="image of no class"),
        pytest.param(lambda own: broken_picture(own, "cat/1.gif"), r"own/cat: 1 of 4 images, such as 1.gif.*PNG", id="format"),
        pytest.param(lambda own: broken_picture(own, "dog/2.JPEG"), r"own/dog/2.JPEG .*PNG.*JPEG", id="no image"),
        pytest.param(lambda own: broken_picture(own, "cat/0.png", b""), r"own/cat/0.png .*PNG.*JPEG", id="empty file"),
        pytest.param(lambda own: (own / "cat/4.png").symlink_to("x"), r"own/cat/4.png .*no readable content", id="lost link"),
        pytest.param(lambda own: (own / "cat/up").symlink_to(own), r"own/cat/up/cat .*own/cat\b", id="circle"),
        pytest.param(lambda own: write_classes(own, ("d\nog",)), r"own .*'d\\nog'; expected printable", id="name"),
        pytest.param(lambda own: write_classes(own / "val"), r"own .*folders bird, cat, dog, val; expected", id="val"),
    ],
)
def test_what_cannot_be_read_is_reported(tmp_path, damage, message):
    write_classes(tmp_path / "own")
    damage(tmp_path / "own")
    with pytest.raises(UserError, match=message):
        load(tmp_path / "own")


def test_a_damaged_image_is_named(tmp_path):
    write_classes(tmp_path)
    for place in ("dog/0.png", "cat/1.jpg"):
        (tmp_path / place).write_bytes((tmp_path / place).read_bytes()[:-100])
    with pytest.raises(UserError, match=r"cat/1.jpg .*damaged"):
        load(tmp_path)


def test_several_mistakes_are_reported_at_once(tmp_path):
    write_classes(tmp_path)
    extra(tmp_path, "cow")
    extra(tmp_path, "ewe")
    broken_picture(tmp_path, "dog/1.tiff")
    with pytest.raises(UserError) as raised:
        load(tmp_path)
    assert [name for name in ("cow", "ewe", "1.tiff") if name in str(raised.value)] == ["cow", "ewe", "1.tiff"]


@pytest.mark.parametrize(
    "names", [("train", "val"), ("Train", "Test"), ("training", "validation"), ("test",), ("train", "extra")]
)
def test_folders_of_other_splits_are_never_read_as_classes(tmp_path, names):
    for name in names:
        write_classes(tmp_path / name, images=1)
    with pytest.raises(UserError, match=rf"folders {', '.join(sorted(names))}; expected train"):
        load(tmp_path)


@pytest.mark.parametrize("missing", ["train", "test"])
def test_a_class_in_one_split_only_is_named(tmp_path, missing):
    for split in ("train", "test"):
        write_classes(tmp_path / split, CLASSES[:2] if split == missing else CLASSES, images=1)
    (other,) = {"train", "test"} - {missing}
    with pytest.raises(UserError, match=rf"class dog is only in {other} \(.*\b1\); expected the same classes"):
        load(tmp_path)


def test_a_folder_of_fewer_than_two_classes_is_reported(tmp_path):
    with pytest.raises(UserError, match=r"dataset.path is missing; source image_folder expects a folder with one subfolder"):
        load(None)
    with pytest.raises(UserError, match=r"nowhere: found no such folder; expected at least two subfolders"):
        load(tmp_path / "nowhere")
    write_classes(tmp_path / "images")
    with pytest.raises(UserError, match=r"found images; expected at least two subfolders.*dataset.path"):
        load(tmp_path)
    for split in ("train", "test"):
        write_picture(tmp_path / f"flat/{split}/1.png", 1)
    with pytest.raises(UserError, match=r"flat/train: found 1.png; expected at least two subfolders"):
        load(tmp_path / "flat")
    with pytest.raises(UserError, match="source image_folder reads your own files"):
        load(tmp_path, download=True)


def test_a_folder_that_may_not_be_read_is_reported(tmp_path, monkeypatch):
    """Not by permissions, which do not bind root."""
    write_classes(tmp_path)

    def scandir(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(UserError, match=r"cat .*\(Permission denied\); expected a folder"):
        image_folder._files(tmp_path / "cat")


@pytest.mark.parametrize("source_name", ["image_folder", "parquet"])
def test_a_study_without_test_images_states_what_it_holds_out(tmp_path, source_name):
    write_classes(tmp_path / "own", images=8)
    settings = {"source": source_name, "path": "own", "fraction": 1.0, "rare_classes": []}
    settings |= {"images_per_class": None, "validation": 0.2, "test": None}
    source = load(tmp_path / "own")
    with pytest.raises(UserError, match=r"own has no .*set dataset.test"):
        drawing_settings(source, settings)
    subset = make_subset(source, seed=0, **drawing_settings(source, settings | {"test": 0.25}))
    assert np.bincount(source.labels[subset.test]).tolist() == [2, 2, 2]

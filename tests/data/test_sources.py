"""Named image sources: their layouts, their official sizes, and the errors for missing or damaged
files.
"""

import dataclasses
import hashlib
import io
import logging
import os
import subprocess
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.data.image_layouts import write_cifar10, write_stl10
from trueneg.data.images.loading import load_source
from trueneg.data.images.sources import cifar10, stl10
from trueneg.errors import UserError
from trueneg.specs.sources import IMAGE_SOURCES

RECORD = 3073


def write_parquet(path, count, labels=None, column="img"):
    """Write `count` rows with the same blue image."""
    stream = io.BytesIO()
    Image.new("RGB", (32, 32), (0, 0, 255)).save(stream, "PNG")
    image = pa.scalar(
        {"bytes": stream.getvalue(), "path": None},
        pa.struct({"bytes": pa.binary(), "path": pa.string()}),
    )
    labels = np.arange(count) % 10 if labels is None else labels
    pq.write_table(pa.table({column: pa.repeat(image, count), "label": labels}), path)


@pytest.fixture(scope="module")
def cifar_records():
    """Make 60,000 records as in the official files: a label and 3,072 bytes."""
    records = np.random.default_rng(0).integers(0, 256, (60_000, RECORD), np.uint8)
    records[:, 0] = np.arange(60_000) % 10
    return records


@pytest.fixture(scope="module")
def cifar_folder(tmp_path_factory, cifar_records):
    folder = tmp_path_factory.mktemp("cifar")
    write_cifar10(folder / "cifar-10-batches-bin", cifar_records)
    return folder


@pytest.fixture
def cifar_links(tmp_path, cifar_folder):
    """A folder of links to the official files, any of which a test may replace."""
    for file in (cifar_folder / "cifar-10-batches-bin").iterdir():
        (tmp_path / file.name).symlink_to(file)
    return tmp_path


def test_digits_equal_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    source = load_source("digits")
    levels = load_digits().images
    assert source.images.shape == (1797, 1, 8, 8)
    assert (abs(source.images[:, 0] / 255 - levels / 16) <= 0.5 / 255 + 1e-12).all()
    assert source.labels.tolist() == load_digits().target.tolist()
    assert source.class_names == tuple("0123456789")
    assert not source.is_test.any()
    assert load_source("digits", resolution=4).images.shape == (1797, 1, 4, 4)


def test_digits_reject_a_path():
    with pytest.raises(UserError, match="source digits is included in scikit-learn"):
        load_source("digits", path="somewhere")


def test_the_binary_version_is_read_as_documented(cifar_folder, cifar_records):
    source = load_source("cifar10", path=cifar_folder)
    assert source.images.shape == (60_000, 3, 32, 32)
    # Byte 1 + 1024·channel + 32·row + column of a record.
    for index, channel, row, column in [
        (0, 0, 0, 0),
        (49_999, 1, 2, 31),
        (50_000, 2, 31, 0),
        (59_999, 2, 30, 29),
    ]:
        expected = cifar_records[index, 1 + 1024 * channel + 32 * row + column]
        assert source.images[index, channel, row, column] == expected
    assert np.array_equal(source.labels, cifar_records[:, 0])
    assert np.flatnonzero(source.is_test).tolist() == list(range(50_000, 60_000))
    assert source.class_names[5:] == ("dog", "frog", "horse", "ship", "truck")
    assert np.array_equal(source.images, cifar_records[:, 1:].reshape(-1, 3, 32, 32))


def test_the_binary_files_may_be_in_the_folder_itself(cifar_links, cifar_records):
    assert np.array_equal(load_source("cifar10", path=cifar_links).labels, cifar_records[:, 0])


def test_a_binary_file_of_the_wrong_size_is_reported(cifar_links):
    (cifar_links / "data_batch_3.bin").unlink()
    (cifar_links / "data_batch_3.bin").write_bytes(bytes(RECORD * 1204 + 7))
    with pytest.raises(
        UserError,
        match=r"data_batch_3.bin is 3,699,899 .*\(1,204 of 10,000 images\); expected 30,730,000",
    ):
        load_source("cifar10", path=cifar_links)
    (cifar_links / "data_batch_3.bin").unlink()
    with pytest.raises(UserError, match=r"data_batch_3.bin is missing"):
        load_source("cifar10", path=cifar_links)


def test_a_binary_label_out_of_range_is_reported(cifar_links, cifar_records):
    records = cifar_records[50_000:].copy()
    records[77, 0] = 10
    (cifar_links / "test_batch.bin").unlink()
    records.tofile(cifar_links / "test_batch.bin")
    with pytest.raises(
        UserError, match=r"test_batch.bin: the label in row 77 .* is 10; expected 0 to 9"
    ):
        load_source("cifar10", path=cifar_links)


def test_parquet_and_layouts_of_cifar10(tmp_path):
    write_parquet(tmp_path / "train.parquet", 50_000)
    with pytest.raises(UserError, match=r"no test\*.parquet \(found train.parquet\)"):
        load_source("cifar10", path=tmp_path)
    write_parquet(tmp_path / "test.parquet", 10_000)
    source = load_source("cifar10", path=tmp_path, resolution=2)
    assert source.images.shape == (60_000, 3, 2, 2)
    assert (source.images == np.array([0, 0, 255]).reshape(3, 1, 1)).all()
    assert source.is_test.sum() == 10_000
    assert source.class_names == cifar10.ARCHIVE.class_names
    write_parquet(tmp_path / "train.parquet", 31_204)
    with pytest.raises(
        UserError, match=r"train.parquet has 31,204 of 50,000 images in the train split"
    ):
        load_source("cifar10", path=tmp_path)
    write_parquet(tmp_path / "train.parquet", 50_000, labels=np.arange(50_000) % 11)
    with pytest.raises(
        UserError, match=r"train.parquet: the label in row 10 .* is 10; expected 0 to 9"
    ):
        load_source("cifar10", path=tmp_path)


@pytest.mark.parametrize(
    "name", ["cifar-10-batches-py/data_batch_1", "data_batch_1", "cifar-10-python.tar.gz"]
)
def test_pickles_are_rejected_without_reading_them(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(UserError, match=r"found .*expected train\*.*download: true"):
        load_source("cifar10", path=tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "stl10"])
def test_missing_and_unknown_layouts_are_reported(tmp_path, name):
    with pytest.raises(
        UserError, match=f"dataset.path is missing; source {name} expects a folder with train"
    ):
        load_source(name)
    with pytest.raises(
        UserError, match=r"nowhere: found no such folder; expected .*dataset.download: true"
    ):
        load_source(name, path=tmp_path / "nowhere")
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(UserError, match=r"found holiday.jpg; expected .*dataset.download: true"):
        load_source(name, path=tmp_path)


def test_the_binary_version_of_stl10_is_read_as_documented(tmp_path):
    folder = tmp_path / "stl10_binary"
    write_stl10(folder)
    with (folder / "train_X.bin").open("r+b") as stream:
        stream.seek(9216 * 1 + 96 * 40 + 7)  # green, column 40, row 7: planes are stored by columns
        stream.write(b"\xff")
    with (folder / "test_X.bin").open("r+b") as stream:
        stream.seek(27_648 * 7_999 + 9216 * 2 + 96 * 3 + 95)
        stream.write(b"\xff")
    source = load_source("stl10", path=tmp_path)
    assert source.images.shape == (13_000, 3, 96, 96)
    assert np.argwhere(source.images).tolist() == [[0, 1, 7, 40], [12_999, 2, 95, 3]]
    assert (source.labels.min(), source.labels.max()) == (0, 9)
    assert source.labels[:3].tolist() == [0, 1, 2]
    assert source.is_test.sum() == 8_000
    assert source.class_names[7] == "monkey"


def test_the_first_unlabelled_images_of_stl10_are_added_after_the_test_images(tmp_path):
    folder = tmp_path / "stl10_binary"
    write_stl10(folder)
    with (folder / "unlabeled_X.bin").open("r+b") as stream:
        stream.seek(27_648 * 2 + 96 * 40 + 7)  # red, column 40, row 7 of the third
        stream.write(b"\xff")
    source = load_source("stl10", path=tmp_path, unlabelled=3)
    assert source.images.shape == (13_003, 3, 96, 96)
    assert np.argwhere(source.images).tolist() == [[13_002, 0, 7, 40]]
    assert source.labels[13_000:].tolist() == [-1, -1, -1]
    assert np.flatnonzero(source.is_test).tolist() == list(range(5_000, 13_000))
    assert (source.labels[:13_000] >= 0).all()
    settings = {"path": tmp_path, "unlabelled": None}
    assert folder / "unlabeled_X.bin" not in stl10.user_files(settings).files
    assert folder / "unlabeled_X.bin" in stl10.user_files(settings | {"unlabelled": 3}).files
    with (folder / "unlabeled_X.bin").open("r+b") as stream:
        stream.truncate(27_648 * 99_999)
    with pytest.raises(
        UserError, match=r"unlabeled_X.bin is 2,764,772,352 bytes long \(99,999 of 100,000 images\)"
    ):
        load_source("stl10", path=tmp_path, unlabelled=3)


def test_parquet_files_of_stl10_have_no_unlabelled_images(tmp_path):
    write_parquet(tmp_path / "train.parquet", 10, column="image")
    with pytest.raises(
        UserError, match=r"found train.parquet; expected stl10_binary\. .*dataset.download: true"
    ):
        load_source("stl10", path=tmp_path, unlabelled=3)


def test_damaged_binary_files_of_stl10_are_reported(tmp_path):
    folder = tmp_path / "stl10_binary"
    write_stl10(folder)
    with (folder / "train_X.bin").open("r+b") as stream:
        stream.truncate(1000)
    with pytest.raises(UserError, match=r"train_X.bin is 1,000 bytes long .*expected 138,240,000"):
        load_source("stl10", path=folder)
    np.full(8_000, 11, np.uint8).tofile(folder / "test_y.bin")
    with pytest.raises(
        UserError, match=r"test_y.bin: the label in row 0 .* is 11; expected 1 to 10"
    ):
        load_source("stl10", path=folder)
    (folder / "train_y.bin").unlink()
    with pytest.raises(UserError, match=r"train_y.bin is missing"):
        load_source("stl10", path=folder)


def test_stl10_is_read_from_parquet(tmp_path):
    write_parquet(tmp_path / "train-00000-of-00001.parquet", 5_000, column="image")
    write_parquet(tmp_path / "test-00000-of-00001.parquet", 8_000, column="image")
    source = load_source("stl10", path=tmp_path, resolution=2)
    assert source.images.shape == (13_000, 3, 2, 2)
    assert source.class_names == stl10.ARCHIVE.class_names


def write_archive(folder, path, name="cifar-10-batches-bin"):
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(folder, name)


def accept_archive(monkeypatch, path):
    """Make an archive the official one; nothing listens at its URL, so it must be in the folder."""
    url, md5 = f"http://127.0.0.1:9/{path.name}", hashlib.md5(path.read_bytes()).hexdigest()
    monkeypatch.setattr(
        cifar10, "load", dataclasses.replace(cifar10.ARCHIVE, url=url, md5=md5).load
    )


def test_an_archive_in_the_folder_is_unpacked_and_not_downloaded(tmp_path, monkeypatch):
    content, folder = tmp_path / "content", tmp_path / "data"
    content.mkdir()
    folder.mkdir()
    (content / "test_batch.bin").write_bytes(b"short")
    write_archive(content, folder / "cifar-10-binary.tar.gz")
    accept_archive(monkeypatch, folder / "cifar-10-binary.tar.gz")
    # It is unpacked and read: the first of the five other files is missing.
    with pytest.raises(UserError, match=r"cifar-10-batches-bin/data_batch_1.bin is missing"):
        load_source("cifar10", path=folder, download=True)
    assert {entry.name for entry in folder.iterdir()} == {
        "cifar-10-batches-bin",
        "cifar-10-binary.tar.gz",
    }


def test_a_failed_download_and_a_wrong_checksum_are_reported(tmp_path, monkeypatch):
    archive = tmp_path / "cifar-10-binary.tar.gz"
    write_archive(tmp_path, archive, "empty")
    accept_archive(monkeypatch, archive)
    archive.unlink()
    message = r"cifar-10-binary.tar.gz could not be .*parquet files to .*data"
    with pytest.raises(UserError, match=message):
        load_source("cifar10", path=tmp_path / "data", download=True)
    monkeypatch.setattr(cifar10, "load", dataclasses.replace(cifar10.ARCHIVE, md5="0" * 32).load)
    with pytest.raises(UserError, match=message):
        load_source("cifar10", path=tmp_path / "data", download=True)


@pytest.mark.parametrize("kind", ["truncated", "another folder", "escapes"])
def test_an_archive_that_cannot_be_unpacked_leaves_nothing(tmp_path, monkeypatch, kind):
    folder = tmp_path / "data"
    folder.mkdir()
    archive = folder / "cifar-10-binary.tar.gz"
    (tmp_path / "file").write_bytes(os.urandom(5000))
    name = {
        "truncated": "cifar-10-batches-bin",
        "another folder": "other",
        "escapes": "../../escaped",
    }[kind]
    write_archive(tmp_path / "file", archive, name)
    if kind == "truncated":
        archive.write_bytes(archive.read_bytes()[:3000])
    accept_archive(monkeypatch, archive)
    with pytest.raises(UserError, match=r"cifar-10-binary.tar.gz could not be .*Copy"):
        load_source("cifar10", path=folder, download=True)
    assert [entry.name for entry in folder.iterdir()] == ["cifar-10-binary.tar.gz"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "file"]


def test_the_images_are_described_in_one_line(caplog):
    with caplog.at_level(logging.INFO, logger="trueneg"):
        load_source("digits")
    (line,) = caplog.messages
    assert line.startswith("digits: 1,797 images of 1 × 8 × 8 pixels, 10 classes")


SOURCES = [f"trueneg.data.images.sources.{name}" for name in IMAGE_SOURCES]


@pytest.mark.parametrize(
    ("imported", "forbidden"),
    [
        ([*SOURCES, "trueneg.data.images.subsets"], {"torch", "torchvision"}),
        (["trueneg.data.images.loading"], {"PIL", "sklearn"}),  # before a source is chosen
    ],
)
def test_slow_modules_are_not_imported(imported, forbidden):
    code = f"import sys, {', '.join(imported)}\nsys.exit(bool({forbidden} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(
    "TRUENEG_CIFAR10" not in os.environ, reason="TRUENEG_CIFAR10 names no folder of real CIFAR-10"
)
def test_real_cifar10():
    source = load_source("cifar10", path=os.environ["TRUENEG_CIFAR10"])
    assert source.images.shape == (60_000, 3, 32, 32)
    assert np.bincount(source.labels[source.is_test]).tolist() == [1_000] * 10
    assert np.bincount(source.labels[~source.is_test]).tolist() == [5_000] * 10
    # The published means of the training images' channels, in units of 255.
    means = source.images[~source.is_test].mean((0, 2, 3)) / 255
    assert means == pytest.approx([0.4914, 0.4822, 0.4465], abs=2e-3)

"""Whether the user's files still hold what was read: touched, edited, removed and added files of every source that has some."""

import importlib
import itertools
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.data import official_layouts as layouts
from tests.data.pictures import write_picture
from tests.data.test_open_i_pairs import FILES, REPORTS
from trueneg.data.images.sources.cifar10 import ARCHIVE as CIFAR10
from trueneg.io.files import file_checksum
from trueneg.specs.pairs import PAIRS, TEXTS
from trueneg.specs.sources import IMAGE_SOURCES
from trueneg.store import user_files
from trueneg.store.user_files import DataChanges, Reading, look, parameter, recorded

MOMENTS = itertools.count(10**9, 10**9)
STL10 = ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")


class Data(NamedTuple):
    """A source's files, and how many of them are tables or the like, and images."""

    kind: str
    settings: dict
    files: int
    images: int = 0


def write_files(folder: Path, names) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(f"content of {name}".encode())


def write_own_table(folder: Path) -> dict:
    for number in range(4):
        write_picture(folder / f"images/{number % 2}/{number}.png", number)
    rows = [(f"{number % 2}/{number}.png", f"Sentence {number}.") for number in range(4)]
    layouts.write_csv(folder / "table.csv", ["image", "text"], rows)
    return {"source": "image_table", "path": str(folder / "images"), "table": str(folder / "table.csv"), "image_column": "image"}


def write_data(name: str, folder: Path) -> Data:
    """The files of a source in a layout that its reader knows."""
    path = str(folder)
    if name in ("parquet", "cifar10 parquet", "stl10 parquet"):
        write_files(folder, ["train-0.parquet", "train-1.parquet", "test.parquet"])
        return Data("images", {"source": name.split()[0], "path": path, "resolution": None}, 3)
    if name in ("cifar10", "stl10"):
        names = CIFAR10.binary_files if name == "cifar10" else STL10
        write_files(folder / ("cifar-10-batches-bin" if name == "cifar10" else "stl10_binary"), names)
        return Data("images", {"source": name, "path": path, "resolution": None}, len(names))
    if name == "image_folder":
        for number in range(4):
            write_picture(folder / f"{number % 2}/{number}.png", number)
        return Data("images", {"source": name, "path": path, "resolution": None}, 0, 4)
    if name in ("image_table", "image_table reports"):
        settings = write_own_table(folder)
        return Data("reports", settings, 1) if "reports" in name else Data("pairs", settings, 1, 4)
    if name == "table":
        layouts.write_csv(folder / "reports.csv", ["report", "text"], [("a", "No edema."), ("b", "Hello.")])
        return Data("reports", {"source": name, "path": str(folder / "reports.csv")}, 1)
    if name == "flickr8k":
        layouts.write_flickr8k(folder, photographs=40)
        return Data("pairs", {"source": name, "path": path}, 5, 40)
    if name in ("flickr30k", "flickr30k reports"):
        layouts.write_flickr30k(folder, photographs=12)
        settings = {"source": "flickr30k", "path": path}
        return Data("reports", settings, 2) if "reports" in name else Data("pairs", settings, 2, 12)
    if name == "mimic_cxr":
        radiographs = layouts.write_mimic_cxr(folder / "jpg")
        layouts.write_ms_cxr(folder / "boxes", layouts.ms_cxr(radiographs))
        return Data("pairs", {"source": name, "path": str(folder / "jpg"), "ms_cxr": str(folder / "boxes")}, 4)
    if name == "chexpert_8x200":
        lists = layouts.chexpert_8x200()
        layouts.write_convirt_lists(folder / "convirt", lists)
        layouts.write_chexpert_pictures(folder / "chexpert", [*lists.candidates, *lists.images])
        settings = {"source": name, "path": str(folder / "chexpert"), "lists": str(folder / "convirt")}
        return Data("benchmark", settings, 3, 1680)
    folder.mkdir()
    layouts.write_open_i_reports(folder, REPORTS)
    if name == "open_i reports":
        return Data("reports", {"source": "open_i", "path": path}, 1)
    layouts.write_open_i_images(folder, FILES)
    return Data("pairs", {"source": "open_i", "path": path, "archive": path}, 2, len(list((folder / "images").iterdir())))


NAMES = (
    *("parquet", "image_folder", "cifar10", "cifar10 parquet", "stl10", "stl10 parquet", "image_table", "image_table reports"),
    *("table", "flickr8k", "flickr30k", "flickr30k reports", "mimic_cxr", "open_i", "open_i reports", "chexpert_8x200"),
)


@pytest.fixture(scope="module", params=NAMES)
def data(request, tmp_path_factory):
    """Data, and the reading of them; tests put back what they change."""
    found = write_data(request.param, tmp_path_factory.mktemp("data") / "own")
    return found, Reading("sources/own", found.kind, found.settings)


def read(reading: Reading, results: Path) -> None:
    """Stands for a first job, which writes its output and the record."""
    output = results / "sources/own.npz"
    with recorded(parameter(reading, results), output):
        output.parent.mkdir(parents=True, exist_ok=True)
        np.savez(output, checksum=np.array("0123456789"))


def flip(path: Path) -> None:
    """Change a byte; the size stays."""
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    moment = next(MOMENTS)  # a new one, however coarse the file system's clock is
    os.utime(path, ns=(moment, moment))


def listed(reading: Reading) -> tuple[list[Path], list[Path]]:
    found = user_files._listed(reading)
    return [path for path in found.files if path.is_file()], list(found.images)


def test_every_file_is_looked_at_and_touching_it_changes_nothing(data, tmp_path):
    found, reading = data
    files, images = listed(reading)
    assert (len(files), len(images)) == (found.files, found.images)
    read(reading, tmp_path)
    before = look(reading, tmp_path)
    assert before.stamp
    assert before.changes == []
    for path in (*files, *images):
        os.utime(path, ns=(1, 1))
    assert look(reading, tmp_path) == before


def test_an_edited_file_is_named_until_its_content_is_back(data, tmp_path):
    found, reading = data
    read(reading, tmp_path)
    before = look(reading, tmp_path)
    for path in listed(reading)[0]:
        flip(path)
        after = look(reading, tmp_path)
        assert after.stamp != before.stamp
        (sentence,) = [one for one in after.changes if str(path) in one]
        assert f"1 of {found.files} files" in sentence
        flip(path)
        assert look(reading, tmp_path) == before


@pytest.mark.parametrize(
    "data", ["image_folder", "image_table", "flickr8k", "flickr30k", "open_i", "chexpert_8x200"], indirect=True
)
def test_an_edited_image_changes_the_stamp_until_its_content_is_back(data, tmp_path):
    found, reading = data
    read(reading, tmp_path)
    before, (path, *_) = look(reading, tmp_path), listed(reading)[1]
    flip(path)
    after = look(reading, tmp_path)
    assert after.stamp != before.stamp
    assert f"{found.images:,} images" in after.changes[0]
    flip(path)
    assert look(reading, tmp_path) == before


def test_data_that_are_moved_away_have_not_changed(data, tmp_path):
    reading = data[1]
    read(reading, tmp_path)
    before = look(reading, tmp_path)
    files, images = listed(reading)
    away = [(path, tmp_path / f"{number}") for number, path in enumerate((*files, *images))]
    for path, to in away:
        shutil.move(path, to)
    assert look(reading, tmp_path) == before
    for path, to in away:
        shutil.move(to, path)


@pytest.fixture
def own(tmp_path):
    """A folder of parquet files, the reading of it, and a results folder."""
    return tmp_path / "own", Reading("sources/own", *write_data("parquet", tmp_path / "own")[:2]), tmp_path / "results"


def test_an_image_folder_is_watched_without_a_table(tmp_path):
    folder = tmp_path / "own"
    settings = write_data("image_folder", folder).settings | {"download": False, "unlabelled": None}
    reading = user_files.of_images(settings)
    trained = {"settings": {"dataset": settings, "training": {}}, "source": {"checksum": "0123456789"}}
    output = tmp_path / f"{reading.place}.npz"
    output.parent.mkdir()
    np.savez(output, checksum=np.array("0123456789"))
    (change,) = look(reading, tmp_path).changes
    assert str(reading.record(tmp_path)) in change
    with recorded(parameter(reading, tmp_path), output):
        flip(folder / "0/0.png")
    assert "4 images" in look(reading, tmp_path).changes[0]  # edited while it was read
    with recorded(parameter(reading, tmp_path), output):
        pass
    assert DataChanges(tmp_path).of_run(trained) == ""
    write_picture(folder / "1/5.png", 5)
    (folder / "1/notes.txt").touch()
    assert "5 images" in look(reading, tmp_path).changes[0]
    assert "5 images" in DataChanges(tmp_path).of_run(trained)
    (folder / "1/5.png").unlink()
    assert look(reading, tmp_path).changes == []
    (folder / "1/3.png").rename(folder / "0/3.png")  # now of another class
    assert "4 images" in look(reading, tmp_path).changes[0]


def test_a_file_that_was_added_or_is_gone_is_named(own):
    folder, reading, results = own
    read(reading, results)
    (folder / "train-2.parquet").write_bytes(b"more")
    (folder / "test.parquet").unlink()
    changes = look(reading, results).changes
    assert len(changes) == 2
    assert all("2 of 4 files" in change for change in changes)
    assert any("train-2.parquet" in change for change in changes)
    assert any("test.parquet" in change for change in changes)


def test_looking_writes_nothing(own):
    folder, reading, results = own
    parameter(reading, results)
    assert not results.exists()
    read(reading, results)
    flip(folder / "test.parquet")
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*")}
    parameter(reading, results)
    assert {path: path.stat().st_mtime_ns for path in results.rglob("*")} == before


def test_the_stamp_of_a_job_stays_the_parameter_after_it(own):
    folder, reading, results = own
    for _ in range(2):
        given = parameter(reading, results)
        read(reading, results)
        assert parameter(reading, results) == given
        flip(folder / "test.parquet")


def test_a_file_that_is_edited_while_it_is_read_is_noticed_afterwards(own):
    folder, reading, results = own
    (results / "sources").mkdir(parents=True)
    np.savez(results / "sources/own.npz", checksum=np.array("0"))
    with recorded(parameter(reading, results), results / "sources/own.npz"):
        flip(folder / "test.parquet")
    assert "test.parquet" in look(reading, results).changes[0]


def test_files_that_the_job_downloads_are_recorded(own):
    folder, reading, results = own
    shutil.move(folder, f"{folder} elsewhere")
    given = parameter(reading, results)
    (results / "sources").mkdir(parents=True)
    np.savez(results / "sources/own.npz", checksum=np.array("0"))
    with recorded(given, results / "sources/own.npz"):
        shutil.move(f"{folder} elsewhere", folder)
    assert parameter(reading, results) == given
    flip(folder / "test.parquet")
    assert parameter(reading, results) != given


def test_output_that_has_no_checksum_is_recorded_too(own):
    """As CheXpert 8×200's, which belongs to no run's identity."""
    folder, reading, results = own
    (results / "sources").mkdir(parents=True)
    np.savez(results / "sources/own.npz", images=np.zeros(2))
    with recorded(parameter(reading, results), results / "sources/own.npz"):
        pass
    assert look(reading, results).changes == []
    flip(folder / "test.parquet")
    assert "test.parquet" in look(reading, results).changes[0]


def test_a_job_that_fails_leaves_the_record_of_the_last_reading(own):
    folder, reading, results = own
    read(reading, results)
    flip(folder / "test.parquet")
    before = look(reading, results)
    with pytest.raises(ZeroDivisionError), recorded(parameter(reading, results), results / "sources/own.npz"):
        1 / 0  # noqa: B018
    assert look(reading, results) == before


def test_other_settings_are_a_reason_to_read_again(own):
    _, reading, results = own
    read(reading, results)
    other = reading._replace(settings=reading.settings | {"resolution": 16})
    (change,) = look(other, results).changes
    assert "resolution is 16" in change


def test_output_without_a_record_is_not_trusted_where_there_are_files(own):
    _, reading, results = own
    assert str(reading.record(results)) in look(reading, results).changes[0]
    package = Reading("sources/digits", "images", {"source": "digits", "path": None, "resolution": None})
    assert look(package, results) == ("", [])


def test_images_beyond_a_size_are_judged_by_their_times(tmp_path, monkeypatch):
    monkeypatch.setattr(user_files, "HASHED_BYTES", 0)
    reading = Reading("sources/own", *write_data("image_table", tmp_path / "own")[:2])
    read(reading, tmp_path)
    assert look(reading, tmp_path).changes == []
    os.utime(tmp_path / "own/images/0/0.png", ns=(1, 1))
    assert "4 images" in look(reading, tmp_path).changes[0]


def test_images_are_compared_however_a_table_names_them_and_only_their_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = write_picture(tmp_path / "images/p10012345/1.png", 1)
    write_picture(tmp_path / "images/p10012345/2.png", 2)
    names = [str(first), "p10012345/2.png", "./p10012345/2.png"]  # absolute, relative, and the same image twice
    layouts.write_csv(tmp_path / "table.csv", ["image", "text"], [(name, "No edema.") for name in names])
    settings = {"source": "image_table", "path": "images", "table": "table.csv", "image_column": "image"}
    reading, results = Reading("sources/own", "pairs", settings), Path("results")
    read(reading, results)
    assert look(reading, results).changes == []
    flip(first)
    (change,) = look(reading, results).changes
    assert "in images changed" in change
    assert "p10012345" not in change


def test_files_are_those_of_the_results_folders_own_checkout(tmp_path, monkeypatch):
    reading = Reading("sources/own", "reports", {"source": "table", "path": "data.csv"})
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        layouts.write_csv(tmp_path / name / "data.csv", ["report", "text"], [(name, "No edema.")])
    monkeypatch.chdir(tmp_path / "one")
    read(reading, Path("results"))
    monkeypatch.chdir(tmp_path / "other")
    assert look(reading, Path("../one/results")).changes == []


def test_a_file_that_cannot_be_read_has_not_changed(own, monkeypatch):
    _, reading, results = own
    read(reading, results)
    flip(listed(reading)[0][0])
    monkeypatch.setattr(user_files, "file_checksum", unreadable)  # not by permissions, which do not bind root
    assert look(reading, results).changes == []
    listed(reading)[0][0].write_bytes(b"another size")
    (change,) = look(reading, results).changes  # its size is known without opening it
    assert str(listed(reading)[0][0]) in change
    monkeypatch.setattr("trueneg.data.images.sources.parquet.user_files", unreadable)
    assert look(reading, results).changes == []


def unreadable(path):
    raise PermissionError(13, "Permission denied", str(path))


def test_hidden_files_and_folders_beside_images_do_not_matter(tmp_path):
    reading = Reading("sources/own", *write_data("flickr8k", tmp_path / "own")[:2])
    read(reading, tmp_path)
    images = tmp_path / "own/Flicker8k_Dataset"
    (images / ".DS_Store").write_bytes(b"of a file manager")
    (images / "thumbnails").mkdir()
    assert look(reading, tmp_path).changes == []
    flip(next(images.glob("*.jpg")))
    assert "40 images" in look(reading, tmp_path).changes[0]


def test_the_record_is_as_readable_as_the_output(own):
    _, reading, results = own
    output = results / "sources/own.npz"
    output.parent.mkdir(parents=True)
    with recorded(parameter(reading, results), output):
        np.savez(output, checksum=np.array("0"))
        output.chmod(0o600)
    assert reading.record(results).stat().st_mode & 0o777 == 0o600


def test_a_runs_data_changed_if_the_files_did_or_were_read_again(tmp_path):
    settings = {"source": "parquet", "path": str(tmp_path / "own"), "resolution": None, "download": False, "unlabelled": None}
    write_data("parquet", tmp_path / "own")
    reading = user_files.of_images(settings)
    output = tmp_path / f"{reading.place}.npz"
    output.parent.mkdir()
    np.savez(output, checksum=np.array("0123456789"))
    with recorded(parameter(reading, tmp_path), output):
        pass
    trained = {"settings": {"dataset": settings, "training": {}}, "source": {"checksum": "0123456789"}}
    before = trained | {"source": {"checksum": "9876543210"}}
    elsewhere = trained | {"settings": {"dataset": settings | {"path": "other"}, "training": {}}}
    assert DataChanges(tmp_path).of_run(trained) == ""
    assert DataChanges(tmp_path).of_run(elsewhere) == ""
    assert {"012345", "987654"} <= set(DataChanges(tmp_path).of_run(before).replace("…", " ").split())
    flip(tmp_path / "own/test.parquet")
    assert "own/test.parquet" in DataChanges(tmp_path).of_run(trained)
    assert DataChanges(tmp_path).state(trained, "stale") == "stale, data changed"


def test_a_runs_data_changed_if_its_features_or_weights_did(tmp_path, monkeypatch):
    (tmp_path / "features.safetensors").write_bytes(b"features")
    recorded_files = {"features.safetensors": file_checksum(tmp_path / "features.safetensors"), "gone.safetensors": "0"}
    run = {"settings": {"dataset": {}, "training": {}}, "source": {"checksum": "0"}, "files": recorded_files}
    changes = DataChanges(tmp_path / "results")
    assert changes.of_run(run) == ""
    os.utime(tmp_path / "features.safetensors", ns=(1, 1))
    assert changes.of_run(run) == ""
    (tmp_path / "features.safetensors").write_bytes(b"other features")
    assert "features.safetensors" in changes.of_run(run)
    assert changes.state(run, "finished") == "finished, data changed"
    monkeypatch.setattr(user_files, "file_checksum", unreadable)
    os.utime(tmp_path / "features.safetensors", ns=(2, 2))
    assert changes.of_run(run) == ""


def test_every_source_that_reads_a_path_lists_its_files():
    """But MIMIC-CXR's reports, which are too many to look at."""
    read = {("reports", name) for name, model in TEXTS.items() if "path" in model.model_fields} - {("reports", "mimic_cxr")}
    read |= {("pairs", name) for name, model in PAIRS.items() if name != "phantom"}
    read |= {("images", name) for name in IMAGE_SOURCES if name != "digits"}
    for kind, name in read:
        assert callable(importlib.import_module(user_files.LISTING_MODULES[kind, name]).user_files), (kind, name)

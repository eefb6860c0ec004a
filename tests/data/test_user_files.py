"""Changes in the user's files since they were read: touched, edited, deleted and added files of
every source that reads files.
"""

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
from trueneg.data import user_files
from trueneg.data.images.sources.cifar10 import ARCHIVE as CIFAR10
from trueneg.data.user_files import DataChanges, compare_files, file_parameter, recorded
from trueneg.io.files import file_checksum
from trueneg.specs.kinds.images import ImageStudy
from trueneg.specs.pairs import PAIRS, TEXTS
from trueneg.specs.sources import IMAGE_SOURCES
from trueneg.store import run_files
from trueneg.store.data_input import DataInput, of_dataset

MOMENTS = itertools.count(10**9, 10**9)
STL10 = ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")
PARQUET = ("train-0.parquet", "train-1.parquet", "test.parquet")


class Written(NamedTuple):
    """The files of a source: its settings, and the numbers of images and of other files, such as
    tables.
    """

    kind: str
    settings: dict
    files: int
    images: int = 0

    def as_input(self) -> DataInput:
        return DataInput("sources/user", self.kind, self.settings)


def write_files(folder: Path, names) -> int:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(f"content of {name}".encode())
    return len(names)


def write_image_folder(folder: Path) -> None:
    for number in range(4):
        write_picture(folder / f"{number % 2}/{number}.png", number)


def write_image_table(folder: Path) -> dict:
    write_image_folder(folder / "images")
    rows = [(f"{number % 2}/{number}.png", f"Sentence {number}.") for number in range(4)]
    layouts.write_csv(folder / "table.csv", ["image", "text"], rows)
    return {
        "source": "image_table",
        "path": str(folder / "images"),
        "table": str(folder / "table.csv"),
        "image_column": "image",
    }


def write_source(name: str, folder: Path) -> Written:
    """Write the files of a source in a layout that its reader accepts."""
    source, path = name.split()[0], str(folder)
    settings = {"source": source, "path": path}
    if name in ("parquet", "cifar10 parquet", "stl10 parquet"):
        return Written("images", settings | {"resolution": None}, write_files(folder, PARQUET))
    if name == "cifar10":
        return Written(
            "images", settings, write_files(folder / "cifar-10-batches-bin", CIFAR10.binary_files)
        )
    if name == "stl10":
        return Written("images", settings, write_files(folder / "stl10_binary", STL10))
    if name == "image_folder":
        write_image_folder(folder)
        return Written("images", settings | {"resolution": None}, 0, 4)
    if source == "image_table":
        settings = write_image_table(folder)
        return (
            Written("reports", settings, 1)
            if "reports" in name
            else Written("pairs", settings, 1, 4)
        )
    if name == "flickr8k":
        layouts.write_flickr8k(folder, photographs=40)
        return Written("pairs", settings, 5, 40)
    if source == "flickr30k":
        layouts.write_flickr30k(folder, photographs=12)
        return (
            Written("reports", settings, 2)
            if "reports" in name
            else Written("pairs", settings, 2, 12)
        )
    if name == "mimic_cxr":
        layouts.write_ms_cxr(
            folder / "boxes", layouts.ms_cxr(layouts.write_mimic_cxr(folder / "jpg"))
        )
        return Written(
            "pairs",
            {"source": name, "path": str(folder / "jpg"), "ms_cxr": str(folder / "boxes")},
            4,
        )
    if name == "chexpert_8x200":
        lists = layouts.chexpert_8x200()
        layouts.write_convirt_lists(folder / "convirt", lists)
        layouts.write_chexpert_pictures(folder / "chexpert", [*lists.candidates, *lists.images])
        settings = {
            "source": name,
            "path": str(folder / "chexpert"),
            "lists": str(folder / "convirt"),
        }
        return Written("benchmark", settings, 3, 1680)
    folder.mkdir()
    layouts.write_open_i_reports(folder, REPORTS)
    if name == "open_i reports":
        return Written("reports", settings, 1)
    layouts.write_open_i_images(folder, FILES)
    return Written(
        "pairs", settings | {"archive": path}, 2, len(list((folder / "images").iterdir()))
    )


NAMES = (
    *(
        "parquet",
        "image_folder",
        "cifar10",
        "cifar10 parquet",
        "stl10",
        "stl10 parquet",
        "image_table",
        "image_table reports",
    ),
    *(
        "flickr8k",
        "flickr30k",
        "flickr30k reports",
        "mimic_cxr",
        "open_i",
        "open_i reports",
        "chexpert_8x200",
    ),
)


@pytest.fixture(scope="module", params=NAMES)
def written(request, tmp_path_factory) -> Written:
    """The files of a source; tests undo their changes."""
    return write_source(request.param, tmp_path_factory.mktemp("data") / "user")


class Job:
    """The job that reads an input, and the results folder that it writes to."""

    def __init__(self, data_input: DataInput, results: Path):
        self.data_input, self.results = data_input, results
        self.output = results / f"{data_input.place}.npz"

    def run(self, during=lambda: None, **arrays) -> None:
        """Write the output and the record; call `during` while the files are being read."""
        self.output.parent.mkdir(parents=True, exist_ok=True)
        with recorded(self.parameter(), self.output):
            np.savez(self.output, **(arrays or {"checksum": np.array("0123456789")}))
            during()

    def parameter(self) -> dict:
        return file_parameter(self.data_input, self.results)

    def compare(self):
        return compare_files(self.data_input, self.results)

    def sentences(self) -> list[str]:
        return self.compare().sentences

    def listed(self) -> tuple[list[Path], list[Path]]:
        listed = user_files._listed(self.data_input)
        return [path for path in listed.files if path.is_file()], list(listed.images)


def flip(path: Path) -> None:
    """Change one byte; the size stays the same, and the time differs however coarse the file
    system's clock is.
    """
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    moment = next(MOMENTS)
    os.utime(path, ns=(moment, moment))


def test_touching_or_moving_files_changes_nothing_but_editing_one_does(written, tmp_path):
    job = Job(written.as_input(), tmp_path)
    files, images = job.listed()
    assert (len(files), len(images)) == (written.files, written.images)
    job.run()
    before = job.compare()
    assert before.stamp
    assert before.sentences == []
    for path in (*files, *images):
        os.utime(path, ns=(1, 1))
    assert job.compare() == before
    for path in (*files, *images[:1]):
        flip(path)
        after = job.compare()
        assert after.stamp != before.stamp
        facts = (
            [str(path), f"1 of {written.files} files"]
            if path in files
            else [f"{written.images:,} images"]
        )
        assert any(all(fact in sentence for fact in facts) for sentence in after.sentences)
        flip(path)
        assert job.compare() == before
    moved = [(path, tmp_path / f"{number}") for number, path in enumerate((*files, *images))]
    for path, target in moved:
        shutil.move(path, target)
    assert job.compare() == before
    for path, target in moved:
        shutil.move(target, path)


@pytest.fixture
def job(tmp_path) -> Job:
    """The job that reads a folder of parquet files."""
    return Job(write_source("parquet", tmp_path / "user").as_input(), tmp_path / "results")


def test_images_of_a_folder_are_compared_without_a_table(tmp_path):
    folder = tmp_path / "user"
    settings = write_source("image_folder", folder).settings | {
        "download": False,
        "unlabelled": None,
    }
    job = Job(of_dataset(ImageStudy, settings, {}), tmp_path)
    run = {"settings": {"dataset": settings, "training": {}}, "source": {"checksum": "0123456789"}}
    job.run(during=lambda: flip(folder / "0/0.png"))
    assert "4 images" in job.sentences()[0]
    job.run()
    assert DataChanges(tmp_path).of_run(run) == ""
    write_picture(folder / "1/5.png", 5)
    (folder / "1/notes.txt").touch()
    assert "5 images" in job.sentences()[0]
    assert "5 images" in DataChanges(tmp_path).of_run(run)
    (folder / "1/5.png").unlink()
    assert job.sentences() == []
    (folder / "1/3.png").rename(folder / "0/3.png")  # another class
    assert "4 images" in job.sentences()[0]


def test_added_and_deleted_files_are_named(job, tmp_path):
    job.run()
    (tmp_path / "user/train-2.parquet").write_bytes(b"more")
    (tmp_path / "user/test.parquet").unlink()
    added, deleted = job.sentences()
    assert all(fact in added for fact in ("train-2.parquet", "2 of 4 files"))
    assert all(fact in deleted for fact in ("test.parquet", "2 of 4 files"))


def test_comparing_writes_nothing(job, tmp_path):
    job.parameter()
    assert not job.results.exists()
    job.run()
    flip(tmp_path / "user/test.parquet")
    before = {path: path.stat().st_mtime_ns for path in job.results.rglob("*")}
    job.parameter()
    assert {path: path.stat().st_mtime_ns for path in job.results.rglob("*")} == before


def test_the_parameter_of_a_job_is_the_same_before_and_after_it(job, tmp_path):
    for _ in range(2):
        parameter = job.parameter()
        job.run()
        assert job.parameter() == parameter
        flip(tmp_path / "user/test.parquet")


@pytest.mark.parametrize("arrays", [{}, {"images": np.zeros(2)}], ids=["checksum", "no checksum"])
def test_a_file_edited_while_it_is_read_has_changed_afterwards(job, tmp_path, arrays):
    job.run(during=lambda: flip(tmp_path / "user/test.parquet"), **arrays)
    assert "test.parquet" in job.sentences()[0]
    job.run(**arrays)
    assert job.sentences() == []


def test_files_that_the_job_downloads_are_recorded(job, tmp_path):
    shutil.move(tmp_path / "user", tmp_path / "server")
    parameter = job.parameter()
    job.run(during=lambda: shutil.move(tmp_path / "server", tmp_path / "user"))
    assert job.parameter() == parameter
    flip(tmp_path / "user/test.parquet")
    assert job.parameter() != parameter


def test_a_failed_job_keeps_the_earlier_record(job, tmp_path):
    job.run()
    flip(tmp_path / "user/test.parquet")
    before = job.compare()
    with pytest.raises(ZeroDivisionError):
        job.run(during=lambda: 1 / 0)
    assert job.compare() == before


def test_changed_settings_are_a_reason_to_read_again(job):
    job.run()
    job.data_input = job.data_input._replace(settings=job.data_input.settings | {"resolution": 16})
    (sentence,) = job.sentences()
    assert "resolution is 16" in sentence


def test_a_missing_record_is_reported_only_if_there_are_files(job, tmp_path):
    assert str(job.data_input.record(job.results)) in job.sentences()[0]
    packaged = DataInput(
        "sources/digits", "images", {"source": "digits", "path": None, "resolution": None}
    )
    assert compare_files(packaged, tmp_path) == ("", [])


def test_images_above_the_size_limit_are_compared_by_time(tmp_path, monkeypatch):
    monkeypatch.setattr(user_files, "HASHED_BYTES", 0)
    job = Job(write_source("image_table", tmp_path / "user").as_input(), tmp_path)
    job.run()
    assert job.sentences() == []
    os.utime(tmp_path / "user/images/0/0.png", ns=(1, 1))
    assert "4 images" in job.sentences()[0]


def test_planning_reads_small_tables_only(tmp_path, monkeypatch):
    table = write_source("image_table reports", tmp_path / "user").as_input()
    assert user_files.is_checked_when_planning(table)
    size = (tmp_path / "user/table.csv").stat().st_size
    monkeypatch.setattr(user_files, "PLANNED_BYTES", size - 1)
    assert not user_files.is_checked_when_planning(table)


def test_images_with_several_names_are_compared_once_and_only_their_folder_is_named(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    first = write_picture(tmp_path / "images/p10012345/1.png", 1)
    write_picture(tmp_path / "images/p10012345/2.png", 2)
    # absolute, relative, and the same image twice
    names = [str(first), "p10012345/2.png", "./p10012345/2.png"]
    layouts.write_csv(
        tmp_path / "table.csv", ["image", "text"], [(name, "No edema.") for name in names]
    )
    settings = {
        "source": "image_table",
        "path": "images",
        "table": "table.csv",
        "image_column": "image",
    }
    job = Job(DataInput("sources/user", "pairs", settings), Path("results"))
    job.run()
    assert job.sentences() == []
    flip(first)
    (sentence,) = job.sentences()
    assert "in images changed" in sentence
    assert "p10012345" not in sentence


def test_a_change_is_noticed_beside_an_image_that_may_be_missing(tmp_path):
    settings = write_image_table(tmp_path / "user")
    images = tmp_path / "user/images"
    (images / "1/3.png").unlink()
    settings |= {"text_column": "text", "patient_column": None, "skip_incomplete": 0.3}
    job = Job(DataInput("sources/user", "pairs", settings), tmp_path / "results")
    job.run()
    assert job.sentences() == []
    flip(images / "0/0.png")
    (sentence,) = job.sentences()
    assert "3 images" in sentence
    flip(images / "0/0.png")
    assert job.sentences() == []
    (images / "0/2.png").rename(tmp_path / "2.png")  # of an image that was read
    assert job.sentences() == []
    (tmp_path / "2.png").rename(images / "0/2.png")
    write_picture(images / "1/3.png", 3)  # of the one that was missing
    (sentence,) = job.sentences()
    assert "4 images" in sentence


def test_paths_are_relative_to_the_parent_of_the_results_folder(tmp_path, monkeypatch):
    settings = {
        "source": "image_table",
        "path": "images",
        "table": "data.csv",
        "image_column": "image",
    }
    data_input = DataInput("sources/user", "reports", settings)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        layouts.write_csv(tmp_path / name / "data.csv", ["image", "text"], [(name, "No edema.")])
    monkeypatch.chdir(tmp_path / "first")
    Job(data_input, Path("results")).run()
    monkeypatch.chdir(tmp_path / "second")
    assert Job(data_input, Path("../first/results")).sentences() == []


def unreadable(path):
    raise PermissionError(13, "Permission denied", str(path))


def test_unreadable_files_count_as_unchanged_unless_their_size_differs(job, monkeypatch):
    job.run()
    path = job.listed()[0][0]
    flip(path)
    # not by permissions, which do not bind root
    monkeypatch.setattr(run_files, "file_checksum", unreadable)
    assert job.sentences() == []
    path.write_bytes(b"another size")
    (sentence,) = job.sentences()
    assert str(path) in sentence
    monkeypatch.setattr("trueneg.data.images.sources.parquet.user_files", unreadable)
    assert job.sentences() == []


def test_hidden_files_and_folders_beside_images_are_ignored(tmp_path):
    job = Job(write_source("flickr8k", tmp_path / "user").as_input(), tmp_path)
    job.run()
    images = tmp_path / "user/Flicker8k_Dataset"
    (images / ".DS_Store").write_bytes(b"of a file manager")
    (images / "thumbnails").mkdir()
    assert job.sentences() == []


def test_the_record_has_the_permissions_of_the_output(job):
    job.run(during=lambda: job.output.chmod(0o600))
    assert job.data_input.record(job.results).stat().st_mode & 0o777 == 0o600


def test_the_data_of_a_run_changed_if_files_changed_or_were_read_again(tmp_path):
    settings = write_source("parquet", tmp_path / "user").settings | {
        "download": False,
        "unlabelled": None,
    }
    Job(of_dataset(ImageStudy, settings, {}), tmp_path).run()
    run = {"settings": {"dataset": settings, "training": {}}, "source": {"checksum": "0123456789"}}
    earlier = run | {"source": {"checksum": "9876543210"}}
    elsewhere = run | {"settings": {"dataset": settings | {"path": "other"}, "training": {}}}
    assert DataChanges(tmp_path).of_run(run) == ""
    assert DataChanges(tmp_path).of_run(elsewhere) == ""
    assert {"012345", "987654"} <= set(
        DataChanges(tmp_path).of_run(earlier).replace("…", " ").split()
    )
    flip(tmp_path / "user/test.parquet")
    assert "user/test.parquet" in DataChanges(tmp_path).of_run(run)
    assert DataChanges(tmp_path).state(run, "stale") == "stale, data changed"


def test_the_data_of_a_run_changed_if_features_or_weights_changed(tmp_path, monkeypatch):
    path = tmp_path / "features.safetensors"
    path.write_bytes(b"features")
    files = {path.name: file_checksum(path), "gone.safetensors": "0"}
    dataset = {"source": "digits", "path": None, "resolution": None}
    run = {
        "settings": {"dataset": dataset, "training": {}},
        "source": {"checksum": "0"},
        "files": files,
    }
    changes = DataChanges(tmp_path / "results")
    assert changes.of_run(run) == ""
    os.utime(path, ns=(1, 1))
    assert changes.of_run(run) == ""
    path.write_bytes(b"other features")
    assert changes.state(run, "finished") == "finished, data changed"
    assert path.name in changes.of_run(run)
    monkeypatch.setattr(run_files, "file_checksum", unreadable)
    os.utime(path, ns=(2, 2))
    assert changes.of_run(run) == ""


def test_every_source_that_reads_a_path_lists_its_files():
    """Except the reports of MIMIC-CXR, which are too many to compare."""
    read = {("reports", name) for name, model in TEXTS.items() if "path" in model.model_fields} - {
        ("reports", "mimic_cxr")
    }
    read |= {("pairs", name) for name in PAIRS if name != "phantom"}
    read |= {("images", name) for name in IMAGE_SOURCES if name != "digits"}
    for kind, name in read:
        module = user_files.reader_of(DataInput("", kind, {"source": name}))
        assert callable(importlib.import_module(module).user_files), (kind, name)

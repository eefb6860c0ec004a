"""Detect changes in the user's files since they were last read.

The first job of a chain, which reads these files, records their sizes, modification times and checksums next to its output,
together with the stamp that its rule received as a parameter. The stamp changes only when the content of a file changes: a file
whose size and modification time match the record is not opened; any other file is hashed. Editing a file therefore reruns the
chain; touching it does not. Missing and unreadable files count as unchanged, so figures can be redrawn without the data.
"""

import contextlib
import functools
import hashlib
import importlib
import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import benchmark_key, corpora, pairs_key, source_key, training_kind
from trueneg.errors import UserError
from trueneg.io.files import UserFiles, atomic_write, file_checksum
from trueneg.specs.pairs import PAIRS, TEXTS
from trueneg.specs.pairs.base import OwnTextSettings
from trueneg.specs.sources import IMAGE_SOURCES
from trueneg.store.records import UserFilesRecord, read_json
from trueneg.store.versions import reading_version

# Modules whose function `user_files` lists the files of a source, by kind and name of the source. The reports of MIMIC-CXR are
# left out: stat() on 228,000 files takes minutes on a network file system, and releases are not edited.
LISTING_MODULES = {
    **{("images", source): f"trueneg.data.images.sources.{source}" for source in IMAGE_SOURCES},
    **{("pairs", source): f"trueneg.data.pairs.{source}" for source in PAIRS},
    **{("reports", source): f"trueneg.data.pairs.{source}" for source, texts in TEXTS.items() if texts.captions},
    ("reports", "open_i"): "trueneg.data.reports.open_i",
    ("reports", "table"): "trueneg.data.reports.table",
    ("benchmark", "chexpert_8x200"): "trueneg.data.pairs.chexpert_8x200",
}
# Images with a larger total size are compared by size and modification time only, because hashing would read all of them.
HASHED_BYTES = 16e9
SHOWN = 3  # maximum number of changed files to list
UNREADABLE = ""  # placeholder for the checksum of an unreadable file

PLACES = ("path", "table", "archive")  # settings that tell where a data set is

Status = tuple[int, int]  # size and modification time (ns) of a file


class Reading(NamedTuple):
    """The input of the first job of a chain.

    Attributes:
        place: path of the job's output in the results folder, without suffix.
        kind: ``images``, ``pairs``, ``reports`` or ``benchmark``.
        settings: ``source`` and the settings that the functions of the source need.
    """

    place: str
    kind: str
    settings: Mapping[str, Any]

    def record(self, results: Path) -> Path:
        """Return the path of the record that the job writes next to its output."""
        return results / f"{self.place}.files.json"


class Look(NamedTuple):
    """The result of comparing files with their record.

    Attributes:
        stamp: the rule's parameter; empty if there are no files.
        changes: one sentence per reason to read the files again; empty if the output is up to date or the files are missing.
    """

    stamp: str
    changes: list[str]


def of_images(dataset: Mapping[str, Any]) -> Reading:
    """Return the :class:`Reading` for an image source, given the settings of a data set."""
    settings = {key: dataset[key] for key in ("source", "path", "resolution", "download")}
    settings |= {"unlabelled": dataset["unlabelled"]} if dataset["unlabelled"] else {}  # omit the default so that no job is rerun
    return Reading(f"sources/{source_key(dataset)}", "images", settings)


def of_corpora(name: str, study: LikelihoodStudy) -> dict[str, Reading]:
    """Return the :class:`Reading` for the reports of each corpus of a likelihood study."""
    found = {}
    for corpus, reports in corpora(study).items():
        settings = reports.model_dump(mode="json")
        for key, default in (("seed", None), ("skip_incomplete", False)):  # omit the defaults so that no job is rerun
            if settings.get(key, default) == default:
                settings.pop(key, None)
        found[corpus] = Reading(f"{name}/text/{corpus}/reports", "reports", settings)
    return found


def of_joined_reports(dataset: Mapping[str, Any], studies: Mapping[str, Any]) -> Reading:
    """Return the :class:`Reading` for the reports that are joined with the images of a data set."""
    found = of_corpora(dataset["text"], studies[dataset["text"]])
    return found[dataset["corpus"] or next(iter(found))]


def of_pairs(dataset: Mapping[str, Any], studies: Mapping[str, Any]) -> Reading:
    """Return the :class:`Reading` for the images of an image–text data set and the table or archive that lists them."""
    reports = of_joined_reports(dataset, studies).settings
    joining = {key: value for key, value in dataset.items() if key not in ("validation", "test")}
    return Reading(f"pairs/{pairs_key(dataset)}", "pairs", {**reports, **joining, "archive": reports.get("path")})


def of_benchmark(lists: BaseModel, dataset: Mapping[str, Any]) -> Reading:
    """Return the :class:`Reading` for CheXpert 8×200, whose images are made square like those of a data set."""
    settings = lists.model_dump() | {"resolution": dataset["resolution"]}
    settings |= {"fit": "stretch"} if dataset.get("fit") == "stretch" else {}  # omit the default from names and records
    return Reading(f"benchmarks/{benchmark_key(settings)}", "benchmark", {"source": "chexpert_8x200", **settings})


def look(reading: Reading, results: Path) -> Look:
    """Compare the files with the record made when they were last read; write nothing.

    Args:
        reading: the input to check.
        results: the results folder.

    Raises:
        UserError: if the record is damaged.
    """
    path = reading.record(results)
    record = read_json(path, UserFilesRecord) if path.is_file() else None
    with contextlib.chdir(results.parent):  # the folder that paths in configurations are relative to
        listed = _listed(reading)
        files, images = _status(listed.files), _status(listed.images)
        # Without the table that lists them, images are not compared; an image folder has no table.
        is_present = bool(files or (images and not (record or {}).get("files")))
        if record is None:
            missing = [f"{path} is missing, so changes cannot be detected"] if is_present else []
            return Look(_digest([files, images]) if is_present else "", missing)
        changes = _changed_settings(reading.settings, record["settings"])
        if is_present and not changes:
            changes = _changed_files(files, record["files"])
            # If images are missing, do not compare: the reading job reports them.
            if len(images) == len(set(listed.images)) and _images_differ(images, record["images"]):
                folder = reading.settings["path"]  # not a subfolder or file: their names may identify patients
                changes.append(f"data changed: some of the {len(images):,} images in {folder} changed since the data were read")
    return Look(_digest([files, images]) if is_present and changes else record["stamp"], changes)


def check_own_table(reading: Reading) -> None:
    """Check the columns and labels of the user's own table if the input is such a table and the file exists.

    Raises:
        UserError: if the table cannot be used.
    """
    if issubclass(TEXTS.get(reading.settings["source"], object), OwnTextSettings):
        importlib.import_module(LISTING_MODULES[reading.kind, reading.settings["source"]]).check_table(reading.settings)


def parameter(reading: Reading, results: Path) -> dict[str, Any]:
    """Return the parameter of the first rule of a chain, for :func:`recorded`; with the code's version, once it was raised."""
    version = reading_version(reading.kind, reading.settings["source"])
    return ({"version": version} if version > 1 else {}) | {
        "record": str(reading.record(results)),
        "kind": reading.kind,
        "settings": dict(reading.settings),
        "stamp": look(reading, results).stamp,
    }


@contextlib.contextmanager
def recorded(parameter: Mapping[str, Any], output: str | Path) -> Iterator[None]:
    """Record the files that the block reads, once it has succeeded.

    Args:
        parameter: from :func:`parameter`.
        output: file that the block writes; if it is an .npz file with a ``checksum``, this is recorded too.
    """
    reading = Reading("", parameter["kind"], parameter["settings"])
    found = _content(reading)  # before the block reads them, so that files edited during the job are detected afterwards
    yield
    content = {key: parameter[key] for key in ("kind", "settings", "stamp")} | {"data": ""}
    content |= found if _has_files(found) else _content(reading)  # the block may have downloaded them
    if Path(output).suffix == ".npz":
        with np.load(output, allow_pickle=False) as archive:
            content["data"] = str(archive["checksum"]) if "checksum" in archive else ""
    with atomic_write(parameter["record"]) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n")
        temporary.chmod(stat.S_IMODE(Path(output).stat().st_mode))  # keep restricted data private to their owner


def placed(settings: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a data set with the places that a configuration has for it."""
    return {key: (configured.get(key) or value) if key in PLACES else value for key, value in settings.items()}


def moved(record: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record of a reading as if the data had been in the places in `settings`.

    Returns:
        The record; None if it has digests of image files, which include their paths, and the places differ.
    """
    before, now = record["settings"], placed(record["settings"], settings)
    folders = {Path(before[key]).expanduser(): now[key] for key in PLACES if before.get(key) and before[key] != now[key]}
    if folders and record["images"]["stamp"] != _digest({}):
        return None
    files = {}
    for file, found in record["files"].items():
        within = [folder for folder in folders if Path(file).is_relative_to(folder)]
        folder = max(within, key=lambda one: len(one.parts), default=None)  # the innermost, if one contains another
        files[file if folder is None else str(Path(folders[folder]) / Path(file).relative_to(folder))] = found
    return {**record, "settings": now, "files": files}


class DataChanges:
    """Finds runs whose training data changed after training; checks each file once.

    Args:
        results: the results folder.
    """

    def __init__(self, results: Path):
        self._results = results
        self._look = functools.cache(self._compare)

    def of_run(self, run: Mapping[str, Any]) -> str:
        """Describe in a sentence how the data of a finished run changed; empty if they did not change or were not recorded.

        Args:
            run: the run's record.
        """
        return self._of_data(run) or self.of_files(run)

    def of_files(self, run: Mapping[str, Any]) -> str:
        """Describe a change in a finished run's features or weights, like :meth:`of_run`; empty if there is none."""
        with contextlib.chdir(self._results.parent):
            for path, recorded in run.get("files", {}).items():
                found = [_checksum(path, *status) for status in _status([Path(path)]).values()]
                if any(checksum not in (recorded, UNREADABLE) for checksum in found):
                    return f"data changed: {path} changed since the run was trained"
        return ""

    def _of_data(self, run: Mapping[str, Any]) -> str:
        dataset = run["settings"]["dataset"]
        try:
            images = training_kind(run["settings"]) == "images"
            place = f"sources/{source_key(dataset)}" if images else f"pairs/{pairs_key(dataset)}"
        except KeyError:  # a record from a version with other data set keys
            return ""
        checksum, changes = self._look(place)
        trained_on = run["source"]["checksum"]
        if not changes and checksum not in ("", trained_on):
            return f"data changed: last read with checksum {checksum[:6]}…, but the run was trained on {trained_on[:6]}…"
        return next(iter(changes), "")

    def of_reports(self, study: str) -> list[str]:
        """Return sentences that describe how the files of a likelihood study's reports changed."""
        records = sorted((self._results / study / "text").glob("*/reports.files.json"))
        return [change for path in records for change in self._look(f"{study}/text/{path.parent.name}/reports")[1]]

    def state(self, run: Mapping[str, Any], code: str) -> str:
        """Return the state `code` of a run, with ``data changed`` appended if its data changed."""
        return f"{code}, data changed" if self.of_run(run) else code

    def _compare(self, place: str) -> tuple[str, list[str]]:
        """Return the checksum of the data last read and the changes since; both empty if no files were recorded."""
        path = Reading(place, "", {}).record(self._results)
        record = read_json(path, UserFilesRecord) if path.is_file() else None
        if record is None or not _has_files(record):
            return "", []
        reading = Reading(place, record["kind"], record["settings"])
        return record["data"], look(reading, self._results).changes


def _listed(reading: Reading) -> UserFiles:
    """Return the files of a source; none if it is packaged or generated, or if its table is missing or unreadable."""
    module = LISTING_MODULES.get((reading.kind, reading.settings["source"]))
    if module is None or reading.settings.get("path") is None:
        return UserFiles()
    try:
        found = importlib.import_module(module).user_files(reading.settings)
    except (UserError, OSError):  # reported by the reading job
        return UserFiles()
    return UserFiles(found.files) if reading.kind == "reports" else found


def _status(paths: Iterable[Path]) -> dict[str, Status]:
    """Return the status of the files that exist."""
    found = {}
    for path in sorted(paths):
        with contextlib.suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                found[str(path)] = (status.st_size, status.st_mtime_ns)
    return found


def _content(reading: Reading) -> dict[str, Any]:
    """Return the part of a record that describes the files."""
    listed = _listed(reading)
    images = _status(listed.images)
    is_hashed = sum(size for size, _ in images.values()) <= HASHED_BYTES
    return {
        "files": {
            path: {"size": size, "modified": modified, "checksum": _checksum(path, size, modified)}
            for path, (size, modified) in _status(listed.files).items()
        },
        # File names may identify patients, so only digests are stored.
        "images": {"stamp": _digest(images), "checksum": _checksum_of_all(images) if is_hashed else ""},
    }


def _has_files(record: Mapping[str, Any]) -> bool:
    """Return whether a record has any files or images."""
    return bool(record["files"]) or record["images"]["stamp"] != _digest({})


def _changed_settings(found: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    return [
        f"settings changed: {key} is {found.get(key)!r}, was {before.get(key)!r} when the data were read"
        for key in sorted((found.keys() | before.keys()) - {"download"})  # does not affect the data
        if found.get(key) != before.get(key)
    ]


def _changed_files(found: Mapping[str, Status], before: Mapping[str, Mapping[str, Any]]) -> list[str]:
    changes = [f"{path} changed" for path in found if path in before and _is_edited(path, found[path], before[path])]
    changes += [f"{path} was added" for path in found if path not in before]
    changes += [f"{path} was deleted" for path in before if path not in found]
    share = f"{len(changes)} of {len(found.keys() | before.keys())} files"
    return [f"data changed: {change} since the data were read ({share})" for change in changes[:SHOWN]]


def _is_edited(path: str, found: Status, before: Mapping[str, Any]) -> bool:
    if found == (before["size"], before["modified"]):
        return False
    return found[0] != before["size"] or _checksum(path, *found) not in (before["checksum"], UNREADABLE)


def _images_differ(found: Mapping[str, Status], before: Mapping[str, Any]) -> bool:
    if not found or _digest(found) == before["stamp"]:
        return False
    return not before["checksum"] or _checksum_of_all(found) not in (before["checksum"], UNREADABLE)


@functools.cache
def _checksum(path: str, size: int, modified: int) -> str:
    """Return the SHA-256 of a file; cached per process while its size and modification time stay the same."""
    try:
        return file_checksum(path)
    except OSError:  # reported by the reading job
        return UNREADABLE


def _checksum_of_all(files: Mapping[str, Status]) -> str:
    checksums = {path: _checksum(path, *status) for path, status in files.items()}
    return UNREADABLE if UNREADABLE in checksums.values() else _digest(list(checksums.items()))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]

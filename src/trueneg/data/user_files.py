"""Detect changes in the user's files since they were last read.

The first job of a chain, which reads these files, records their sizes, modification times and
checksums next to its output, together with the stamp that its rule received as a parameter. The
stamp changes only when the content of a file changes: a file whose size and modification time match
the record is not opened; any other file is hashed. Editing a file therefore reruns the chain;
touching it does not. Missing and unreadable files count as unchanged, so figures can be redrawn
without the data.
"""

import contextlib
import functools
import importlib
import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trueneg.errors import UserError
from trueneg.io.files import UserFiles, atomic_write
from trueneg.specs.kinds import kind_of
from trueneg.specs.pairs import TEXTS
from trueneg.specs.sections import Section
from trueneg.specs.texts import TEXT_PAIRS
from trueneg.store.data_input import NO_IMAGES, DataInput, digest
from trueneg.store.records import Record, UserFilesRecord, read_json
from trueneg.store.run_files import checksum_of
from trueneg.store.versions import reading_version

# Packages of the modules that read the sources of each kind.
READERS = {"images": "images.sources", "pairs": "pairs", "texts": "texts", "benchmark": "pairs"}
# Images with a larger total size are compared by size and modification time only, because hashing
# would read all of them.
HASHED_BYTES = 16e9
# Larger tables are checked by the job that reads them, so that Snakemake plans in seconds.
PLANNED_BYTES = 30e6
SHOWN = 3  # maximum number of changed files to list
UNREADABLE = ""  # placeholder for the checksum of an unreadable file

Status = tuple[int, int]  # size and modification time (ns) of a file


class FileChanges(NamedTuple):
    """The result of comparing files with their record.

    Attributes:
        stamp: the rule's parameter; empty if there are no files.
        sentences: one per reason to read the files again; empty if the output is up to date or the
            files are missing.
    """

    stamp: str
    sentences: list[str]


def compare_files(data_input: DataInput, results: Path) -> FileChanges:
    """Compare the files of an input with the record made when they were last read; write nothing.

    Raises:
        UserError: if the record is damaged.
    """
    path = data_input.record(results)
    record = read_json(path, UserFilesRecord) if path.is_file() else None
    # the folder that paths in configurations are relative to
    with contextlib.chdir(results.parent):
        listed = _listed(data_input)
        files = _status(listed.files)
        images = _status(listed.images)
        # Without the table that lists them, images are not compared; an image folder has no table.
        is_present = bool(files or (images and not (record or {}).get("files")))
        stamp = digest([files, images]) if is_present else ""
        if record is None:
            return FileChanges(
                stamp, [f"{path} is missing, so changes cannot be detected"] if is_present else []
            )
        sentences = _changed_settings(data_input.settings, record["settings"])
        if is_present and not sentences:
            sentences = _changed_files(files, record["files"])
            # If fewer images are present than were read, do not compare: missing files count as
            # unchanged.
            before = record["images"].get("count", len(set(listed.images)))
            if images and len(images) >= before and _images_differ(images, record["images"]):
                # not a subfolder or file: their names may identify patients
                sentences.append(
                    f"data changed: some of the {len(images):,} images in"
                    f" {data_input.settings['path']} changed since the data were read"
                )
    return FileChanges(stamp if stamp and sentences else record["stamp"], sentences)


def is_checked_when_planning(data_input: DataInput) -> bool:
    """Return whether the files of an input are small enough to be read whenever they changed."""
    sizes = [size for size, _ in _status(_listed(data_input).files).values()]
    return sum(sizes) <= PLANNED_BYTES


def check_own_table(data_input: DataInput) -> str:
    """Check the user's own table if the input is such a table and the file exists.

    Returns:
        A sentence about the rows left out; empty if there are none.

    Raises:
        UserError: if the table or a row cannot be used.
    """
    if data_input.settings["source"] not in {"image_table", *TEXT_PAIRS}:
        return ""
    return importlib.import_module(reader_of(data_input)).check_table(data_input.settings)


def missing_files(data_input: DataInput) -> list[str]:
    """List what is missing of a source's files and where to get it, if its module knows."""
    if data_input.settings.get("path") is None:
        return []
    try:
        list_missing = importlib.import_module(reader_of(data_input)).missing_files
    except AttributeError:
        return []
    missing: list[str] = list_missing(data_input.settings)
    return missing


def file_parameter(data_input: DataInput, results: Path) -> dict[str, Any]:
    """Return the parameter of the first rule of a chain, for :func:`recorded`; with the code's
    version, once it was raised.
    """
    version = reading_version(data_input.kind, data_input.settings["source"])
    return ({"version": version} if version > 1 else {}) | {
        "record": str(data_input.record(results)),
        "kind": data_input.kind,
        "settings": dict(data_input.settings),
        "stamp": compare_files(data_input, results).stamp,
    }


@contextlib.contextmanager
def recorded(parameter: Record, output: str | Path) -> Iterator[None]:
    """Record the files that the block reads, once it has succeeded.

    Args:
        parameter: from :func:`file_parameter`.
        output: file that the block writes; if it is an .npz file with a ``checksum``, this is
            recorded too.
    """
    data_input = DataInput("", parameter["kind"], parameter["settings"])
    before = _content(data_input)  # so that files edited during the job are detected afterwards
    yield
    content = {key: parameter[key] for key in ("kind", "settings", "stamp")} | {"data": ""}
    # the block may have downloaded them
    content |= before if _has_files(before) else _content(data_input)
    if Path(output).suffix == ".npz":
        with np.load(output, allow_pickle=False) as archive:
            content["data"] = str(archive["checksum"]) if "checksum" in archive else ""
    with atomic_write(parameter["record"]) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n")
        # keep restricted data private to their owner
        temporary.chmod(stat.S_IMODE(Path(output).stat().st_mode))


class DataChanges:
    """Finds runs whose training data changed after training; checks each file once.

    Args:
        results: the results folder.
    """

    def __init__(self, results: Path):
        self._results = results
        self._since_read = functools.cache(self._compare)

    def of_run(self, run: Record) -> str:
        """Describe in a sentence how the data of a finished run changed; empty if they did not
        change or were not recorded.

        Args:
            run: the run's record.
        """
        return self._of_data(run) or self.of_files(run)

    def of_files(self, run: Record) -> str:
        """Describe a change in a finished run's features or weights, like :meth:`of_run`; empty if
        there is none.
        """
        with contextlib.chdir(self._results.parent):
            for path, checksum in run.get("files", {}).items():
                if _checksum(path) not in (checksum, UNREADABLE):
                    return f"data changed: {path} changed since the run was trained"
        return ""

    def _of_data(self, run: Record) -> str:
        settings = run["settings"]
        place = kind_of(settings).data_place(settings["dataset"])
        checksum, sentences = self._since_read(place)
        trained_on = run["source"]["checksum"]
        if not sentences and checksum not in ("", trained_on):
            return (
                f"data changed: last read with checksum {checksum[:6]}…, but the run was trained on"
                f" {trained_on[:6]}…"
            )
        return next(iter(sentences), "")

    def of_reports(self, study: str) -> list[str]:
        """Return sentences that describe how the files of a likelihood study's reports changed."""
        records = sorted((self._results / study / "text").glob("*/reports.files.json"))
        return [
            sentence
            for path in records
            for sentence in self._since_read(f"{study}/text/{path.parent.name}/reports")[1]
        ]

    def state(self, run: Record, code: str) -> str:
        """Return the state `code` of a run, with ``data changed`` appended if its data changed."""
        return f"{code}, data changed" if self.of_run(run) else code

    def _compare(self, place: str) -> tuple[str, list[str]]:
        """Return the checksum of the data last read and the changes since; both empty if no files
        were recorded.
        """
        path = DataInput(place, "", {}).record(self._results)
        record = read_json(path, UserFilesRecord) if path.is_file() else None
        if record is None or not _has_files(record):
            return "", []
        data_input = DataInput(place, record["kind"], record["settings"])
        return record["data"], compare_files(data_input, self._results).sentences


def reader_of(data_input: DataInput) -> str:
    """Return the name of the module that reads a source and lists its files."""
    source = data_input.settings["source"]
    if data_input.kind != "reports":
        package = READERS[data_input.kind]
    elif source in TEXT_PAIRS:
        package = "texts"
    else:
        package = "pairs" if TEXTS[source].captions else "reports"
    return f"trueneg.data.{package}.{source}"


def _listed(data_input: DataInput) -> UserFiles:
    """Return the files of a source; none if it is packaged or generated, or if its table is missing
    or unreadable.

    The reports of MIMIC-CXR are left out: stat() on 228,000 files takes minutes on a network file
    system, and releases are not edited.
    """
    is_mimic = data_input.kind == "reports" and data_input.settings["source"] == "mimic_cxr"
    if is_mimic or data_input.settings.get("path") is None:
        return UserFiles()
    try:
        listed = importlib.import_module(reader_of(data_input)).user_files(data_input.settings)
    except (UserError, OSError):  # reported by the reading job
        return UserFiles()
    return UserFiles(listed.files) if data_input.kind == "reports" else listed


def _status(paths: Iterable[Path]) -> dict[str, Status]:
    """Return the status of the files that exist."""
    status_by_path = {}
    for path in sorted(paths):
        with contextlib.suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                status_by_path[str(path)] = (status.st_size, status.st_mtime_ns)
    return status_by_path


def _content(data_input: DataInput) -> dict[str, Any]:
    """Return the part of a record that describes the files."""
    listed = _listed(data_input)
    images = _status(listed.images)
    is_hashed = sum(size for size, _ in images.values()) <= HASHED_BYTES
    return {
        "files": {
            path: {"size": size, "modified": modified, "checksum": _checksum(path)}
            for path, (size, modified) in _status(listed.files).items()
        },
        # File names may identify patients, so only digests are stored.
        "images": {
            "stamp": digest(images),
            "count": len(images),
            "checksum": _checksum_of_all(images) if is_hashed else "",
        },
    }


def _has_files(record: Record) -> bool:
    """Return whether a record has any files or images."""
    return bool(record["files"]) or record["images"]["stamp"] != NO_IMAGES


def _changed_settings(settings: Section, before: Section) -> list[str]:
    return [
        f"settings changed: {key} is {settings.get(key)!r}, was {before.get(key)!r} when the data"
        " were read"
        # does not affect the data
        for key in sorted((settings.keys() | before.keys()) - {"download"})
        if settings.get(key) != before.get(key)
    ]


def _changed_files(files: Mapping[str, Status], before: Mapping[str, Record]) -> list[str]:
    changes = [
        f"{path} changed"
        for path in files
        if path in before and _is_edited(path, files[path], before[path])
    ]
    changes += [f"{path} was added" for path in files if path not in before]
    changes += [f"{path} was deleted" for path in before if path not in files]
    count = len(files.keys() | before.keys())
    return [
        f"data changed: {change} since the data were read ({len(changes)} of {count} files)"
        for change in changes[:SHOWN]
    ]


def _is_edited(path: str, status: Status, before: Record) -> bool:
    if status == (before["size"], before["modified"]):
        return False
    return status[0] != before["size"] or _checksum(path) not in (before["checksum"], UNREADABLE)


def _images_differ(images: Mapping[str, Status], before: Record) -> bool:
    if digest(images) == before["stamp"]:
        return False
    return not before["checksum"] or _checksum_of_all(images) not in (
        before["checksum"],
        UNREADABLE,
    )


def _checksum(path: str) -> str:
    """Return the SHA-256 of a file, which is cached while its size and modification time stay the
    same.
    """
    try:
        return checksum_of(path)
    except OSError:  # reported by the reading job
        return UNREADABLE


def _checksum_of_all(paths: Iterable[str]) -> str:
    checksums = {path: _checksum(path) for path in paths}
    return UNREADABLE if UNREADABLE in checksums.values() else digest(list(checksums.items()))

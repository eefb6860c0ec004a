"""The run store: a folder with one subfolder per run, named by the run's id.

A run's folder contains ``model.safetensors``, ``training.parquet`` (one row per epoch) and ``run.json`` (its provenance). This
record is written last, so a run with a record is finished. Until then, a checkpoint and ``progress.json`` hold its progress. None
of these files is a declared output of a job, because Snakemake deletes declared outputs before a job starts or after it fails.
"""

import contextlib
import logging
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import AcquireReturnProxy, FileLock, Timeout

from trueneg.errors import UserError
from trueneg.io.files import file_checksum, writable
from trueneg.store.records import MANIFEST, PROGRESS, RUN, SCHEMAS, Schema, read_json

log = logging.getLogger(__name__)

SETTINGS = SCHEMAS["settings"]


class RunStore:
    """The folder of all runs, ``results/runs``: the state and the files of each run.

    Args:
        path: the folder; the first run creates it.
    """

    RECORD, MODEL, CURVES = "run.json", "model.safetensors", "training.parquet"
    CHECKPOINT, PREVIOUS, PROGRESS = "checkpoint.safetensors", "checkpoint.previous.safetensors", "progress.json"
    LOCK = "lock"

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def folder(self, identifier: str) -> Path:
        """Return the folder of a run, which need not exist."""
        return self.path / identifier

    def state(self, identifier: str) -> str:
        """Return ``"finished"``, ``"begun"`` or ``"missing"``."""
        folder = self.folder(identifier)
        if (folder / self.RECORD).is_file() and (folder / self.MODEL).is_file():
            return "finished"
        return "begun" if folder.is_dir() else "missing"

    def record(self, identifier: str, schema: Schema = SETTINGS) -> dict[str, Any]:
        """Read the record of a finished run.

        Args:
            identifier: the run's id.
            schema: JSON Schema that the record must match.

        Raises:
            UserError: if the run is not finished, or its record is damaged.
        """
        return read_json(self.folder(identifier) / self.RECORD, schema, "Remove its folder to train the run again.")

    def records(self) -> dict[str, dict[str, Any]]:
        """Read the records of all finished runs, by id, and check all of their keys."""
        found = sorted(self.path.glob(f"*/{self.RECORD}"))
        return {path.parent.name: self.record(path.parent.name, RUN) for path in found}

    def progress(self, identifier: str) -> dict[str, Any]:
        """Read the progress of an unfinished run: epoch, epochs, attempts and description; empty if none is recorded."""
        with contextlib.suppress(UserError):  # a running job rewrites a damaged file within seconds
            return read_json(self.folder(identifier) / self.PROGRESS, PROGRESS)
        return {}

    def forget_progress(self, identifier: str) -> None:
        """Remove the files that are only needed until a run is finished."""
        for name in (self.CHECKPOINT, self.PREVIOUS, self.PROGRESS):
            (self.folder(identifier) / name).unlink(missing_ok=True)

    def owner(self, identifier: str) -> str | None:
        """Return the process that is writing a run, as ``"<process> on <host>"``, or None."""
        path = self.folder(identifier) / self.LOCK
        try:
            if path.is_file():
                _lock(path).lock.release()
        except Timeout:
            return path.read_text().strip() or "of unknown id"
        except OSError:  # another user's results, or a file system without locks
            pass
        return None

    @contextlib.contextmanager
    def owned(self, identifier: str, patience: float = 0.0) -> Iterator[Path]:
        """Lock a run, so that only this process writes to it; the lock is released if the process dies.

        Args:
            identifier: the run's id.
            patience: seconds to wait for another process to finish.

        Raises:
            UserError: if another process holds the lock, or the file system does not support locks.
        """
        folder = self.folder(identifier)
        path = folder / self.LOCK
        if patience and (owner := self.owner(identifier)):
            log.info("%s: waiting up to %.0f s for process %s, which is writing this run", folder, patience, owner)
        try:
            with writable(path):
                folder.mkdir(parents=True, exist_ok=True)
                lock = _lock(path, patience)
        except Timeout as error:
            raise UserError(
                f"{folder}: process {self.owner(identifier)} is writing this run. Wait until it ends, or stop it, then try again."
            ) from error
        except OSError as error:
            raise UserError(_UNSAFE.format(path=path, problem=f"refuses locks ({error.strerror})")) from error
        with lock:
            # Some network file systems grant every lock.
            with contextlib.suppress(Timeout), _lock(path):
                raise UserError(_UNSAFE.format(path=path, problem="grants the same lock twice"))
            with writable(path):
                path.write_text(f"{os.getpid()} on {platform.node()}")
            # Remove files left behind by processes killed while writing; safetensors writes to files named .tmp….
            for unfinished in [*folder.glob(".*.[0-9]*"), *folder.glob(".tmp*")]:
                unfinished.unlink()
            yield folder


def _lock(path: Path, patience: float = 0.0) -> AcquireReturnProxy:
    """Lock a file with ``flock``, which the kernel releases when the process ends."""
    return FileLock(path, timeout=patience, poll_interval=0.2, fallback_to_soft=False).acquire()


_UNSAFE = (
    "{path}: the file system {problem}, so two processes could write the same run. Put results/ on a local disk or on a file "
    "system that supports flock (Lustre: mounted with -o flock)."
)


def read_manifest(path: str | Path, store: RunStore) -> list[dict[str, Any]]:
    """Read the runs of a manifest, each with its seed, id and model file, and verify the checksums.

    Raises:
        UserError: if a model is missing or does not match its checksum.
    """
    manifest = read_json(path, MANIFEST)
    for run in manifest["runs"]:
        run["model"] = store.folder(run["id"]) / RunStore.MODEL
        problem = None if run["model"].is_file() else "is missing"
        if problem or file_checksum(run["model"]) != run["checksum"]:
            raise UserError(
                f"{run['model']} {problem or 'does not match its checksum'}, but {path} lists it. Remove this manifest, so that "
                "Snakemake trains or lists the run again."
            )
    return manifest["runs"]

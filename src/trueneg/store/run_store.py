"""The run store: a folder with one subfolder per run, named by the run's id.

A run's folder contains ``model.safetensors``, ``training.parquet`` (one row per epoch) and ``run.json`` (its provenance). The
record is written last, so a run that has one is finished. Until then, a checkpoint and ``progress.json`` hold its progress. None
of these files is a declared output of a job, because Snakemake deletes declared outputs.
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
    """The folder of runs, ``results/runs``: the state and files of each run.

    Args:
        path: the folder; created with the first run.
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
            UserError: if there is no such run, or its record is damaged.
        """
        path = self.folder(identifier) / self.RECORD
        if not path.exists():
            raise UserError(f"{path}: there is no finished run {identifier}; train it first.")
        return read_json(path, schema, "Remove its folder to have the run trained again.")

    def records(self) -> dict[str, dict[str, Any]]:
        """Read the complete records of all finished runs, by id."""
        found = sorted(self.path.glob(f"*/{self.RECORD}"))
        return {path.parent.name: self.record(path.parent.name, RUN) for path in found}

    def progress(self, identifier: str) -> dict[str, Any]:
        """Read the progress of an unfinished run: epoch, epochs, attempts and description; empty if none is recorded."""
        try:
            return read_json(self.folder(identifier) / self.PROGRESS, PROGRESS)
        except UserError:  # it is rewritten within seconds
            return {}

    def forget_progress(self, identifier: str) -> None:
        """Remove the files that only an unfinished run needs."""
        for name in (self.CHECKPOINT, self.PREVIOUS, self.PROGRESS):
            (self.folder(identifier) / name).unlink(missing_ok=True)

    def owner(self, identifier: str) -> str | None:
        """Return the process that is writing a run, as ``"<process> on <host>"``, or None."""
        path = self.folder(identifier) / self.LOCK
        try:
            if path.is_file():
                with _lock(path):
                    return None
        except Timeout:
            return path.read_text().strip() or "an unknown process"
        except OSError:  # another user's results, or a file system without locks
            pass
        return None

    @contextlib.contextmanager
    def owned(self, identifier: str, patience: float = 0.0) -> Iterator[Path]:
        """Lock a run for writing by one process at a time; the lock is released if the process dies.

        Args:
            identifier: the run's id.
            patience: seconds to wait for another process to finish.

        Raises:
            UserError: if another process holds the lock, or the file system does not support locks.
        """
        folder = self.folder(identifier)
        path, owner = folder / self.LOCK, self.owner(identifier)
        if owner is not None and patience:
            log.info("%s is being written by process %s; waiting up to %.0f s for it to end", folder, owner, patience)
        try:
            with writable(path):
                folder.mkdir(parents=True, exist_ok=True)
                lock = _lock(path, patience)
        except Timeout as error:
            owner = self.owner(identifier)
            raise UserError(
                f"{folder}: is being written by process {owner}; wait for it to end, or stop it, and start again."
            ) from error
        except OSError as error:
            raise UserError(_LAX.format(path=path, found=f"refuses locks: {error.strerror}")) from error
        with lock:
            _refuse_lax_file_system(path)
            with writable(path):
                path.write_text(f"{os.getpid()} on {platform.node()}")
            # Left by processes that were killed while writing; .tmp… files come from safetensors.
            for half_written in [*folder.glob(".*.[0-9]*"), *folder.glob(".tmp*")]:
                half_written.unlink()
            yield folder


def _lock(path: Path, patience: float = 0.0) -> AcquireReturnProxy:
    """Lock a file with ``flock``, which the kernel releases when the process ends."""
    return FileLock(path, timeout=patience, poll_interval=0.2, fallback_to_soft=False).acquire()


def _refuse_lax_file_system(path: Path) -> None:
    """Check that a second lock fails while this process holds the first; some network file systems grant every lock."""
    with contextlib.suppress(Timeout), _lock(path):
        raise UserError(_LAX.format(path=path, found="grants one lock twice"))


_LAX = (
    "{path}: its file system {found} (flock), so two processes could write one run. Put results/ on a local disk or a file "
    "system that keeps locks (for Lustre: mounted with -o flock)."
)


def read_manifest(path: str | Path, store: RunStore) -> list[dict[str, Any]]:
    """Read the runs of a manifest, each with its seed, id and model file, and verify the checksums.

    Raises:
        UserError: if a model is missing or does not match its checksum.
    """
    manifest = read_json(path, MANIFEST)
    for run in manifest["runs"]:
        run["model"] = store.folder(run["id"]) / RunStore.MODEL
        if not run["model"].is_file():
            raise UserError(
                f"{run['model']}: is missing, but {path} lists it. Remove the manifest to have the run trained again."
            )
        if file_checksum(run["model"]) != run["checksum"]:
            raise UserError(
                f"{run['model']}: its checksum is not the one in {path}. Remove the manifest to have it written anew."
            )
    return manifest["runs"]

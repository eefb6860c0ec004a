"""The run store: a folder with one subfolder per run, named by the run's id.

A run's folder contains ``model.safetensors``, ``training.parquet`` (one row per epoch) and
``run.json`` (its provenance, with the checksum of the model, which is compared wherever the model
is used). This record is written last, so a run with a record is finished. Until then, a checkpoint
and ``progress.json`` hold its progress. None of these files is a declared output of a job, because
Snakemake deletes declared outputs before a job starts or after it fails.

Each file ``evaluated-*.json`` contains the rows that were measured with one study's evaluation
settings (:mod:`trueneg.store.evaluations`). An imported run (:mod:`trueneg.store.exchange`) has no
model, but a file ``imported``.
"""

import contextlib
import json
import logging
import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import AcquireReturnProxy, FileLock, Timeout

from trueneg.errors import UserError
from trueneg.io.files import file_checksum, writable, write_text
from trueneg.io.seals import damage, remove_seal, seal, sealed_files
from trueneg.store.records import (
    Content,
    Manifest,
    Progress,
    Record,
    RunRecord,
    TrainedModel,
    read_json,
)

log = logging.getLogger(__name__)


class RunStore:
    """The folder of all runs, ``results/runs``: the state and the files of each run.

    Args:
        path: the folder; the first run creates it.
    """

    RECORD, MODEL, CURVES = "run.json", "model.safetensors", "training.parquet"
    CHECKPOINT = "checkpoint.safetensors"
    PREVIOUS = "checkpoint.previous.safetensors"
    PROGRESS = "progress.json"
    EVALUATED, IMPORTED, LOCK = "evaluated-*.json", "imported", "lock"
    TRAINED = ("finished", "imported")  # states of runs that need no training

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def folder(self, identifier: str) -> Path:
        """Return the folder of a run, which need not exist."""
        return self.path / identifier

    def state(self, identifier: str) -> str:
        """Return ``"finished"``, ``"imported"`` (finished elsewhere: rows without weights),
        ``"started"`` or ``"missing"``.
        """
        folder = self.folder(identifier)
        if (folder / self.RECORD).is_file():
            if (folder / self.MODEL).is_file():
                return "finished"
            if (folder / self.IMPORTED).is_file():
                return "imported"
        return "started" if folder.is_dir() else "missing"

    def marked(self, identifier: str, code: str) -> str:
        """Return the state `code` of a trained run, with ``imported`` appended if its weights are
        not here.
        """
        return f"{code}, imported" if self.state(identifier) == "imported" else code

    def record(self, identifier: str, model: type[Content] = TrainedModel) -> dict[str, Any]:
        """Read the record of a finished run.

        Args:
            identifier: the run's id.
            model: model that the record must match.

        Raises:
            UserError: if the run is not finished, or its record is damaged.
        """
        path = self.folder(identifier) / self.RECORD
        if path.is_file():
            self.require_intact(identifier, path)
        return read_json(path, model, "Remove its folder to train the run again.")

    def checksum(self, identifier: str) -> str:
        """Return the checksum of a run's model, after comparing the files of its training, and the
        rows of an imported run, with the checksums recorded for them.

        Raises:
            UserError: if a file is not the one that was written, or is missing; the model of an
                imported run may be.
        """
        weights = self.folder(identifier) / self.MODEL
        is_imported = self.state(identifier) == "imported"
        for path in self.sealed(identifier):
            if is_imported or not path.match(self.EVALUATED):  # which can be measured again
                self.require_intact(identifier, path)
        recorded = self.record(identifier)["checksum"]
        if not is_imported and not weights.is_file():
            raise UserError(f"{weights} is missing. {self.removal(identifier)}")
        if not is_imported and (actual := file_checksum(weights)) != recorded:
            raise UserError(
                f"{weights} is damaged: its SHA-256 is {actual[:12]}…, but {self.RECORD} beside it"
                f" says {recorded[:12]}…. {self.removal(identifier)}"
            )
        return recorded

    def sealed(self, identifier: str) -> Iterator[Path]:
        """Yield the files of a run whose checksums were recorded."""
        return sealed_files(self.path.parent, f"{self.path.name}/{identifier}/")

    def require_intact(self, identifier: str, path: Path) -> Path:
        """Return a file of a run after comparing it with its seal.

        Raises:
            UserError: if it is damaged.
        """
        if problem := damage(self.path.parent, path):
            raise UserError(f"{path} {problem}. {self.remedy(identifier, path)}")
        return path

    def remedy(self, identifier: str, path: Path) -> str:
        """Return a sentence that says how to replace a damaged file of a run."""
        if path.match(self.EVALUATED) and self.state(identifier) != "imported":
            return (
                "Run `snakemake --forcerun evaluate` with the study's configuration to measure its"
                " rows again."
            )
        return self.removal(identifier)

    def clear(self, identifier: str) -> None:
        """Remove the record, rows and curve of an earlier training or import, and their seals."""
        folder = self.folder(identifier)
        for path in self.sealed(identifier):
            remove_seal(self.path.parent, path)
        for path in (*folder.glob(self.EVALUATED), folder / self.RECORD, folder / self.IMPORTED):
            with writable(path):
                path.unlink(missing_ok=True)

    def removal(self, identifier: str) -> str:
        """Return a sentence that says how to have a damaged run or language model trained again."""
        if self.state(identifier) == "imported":
            return (
                f"Remove the folder {self.folder(identifier)} and import the exported study again."
            )
        listing = sorted(
            str(path)
            for pattern in ("*/manifests/*/*/*.json", "*/text/*/language_models/*.json")
            for path in self.path.parent.glob(pattern)
            if f'{identifier}"' in path.read_text(errors="replace")
        )
        listed = f" and the manifests that list the run ({', '.join(listing)})" if listing else ""
        return (
            f"Remove the folder {self.folder(identifier)}{listed}; Snakemake then trains the run"
            " again."
        )

    def finish(self, identifier: str, record: Record) -> None:
        """Write the record of a trained run, with the checksum of its model; from then on, the run
        is finished.
        """
        folder = self.folder(identifier)
        self.clear(identifier)
        record = {**record, "checksum": file_checksum(folder / self.MODEL)}
        write_text(folder / self.RECORD, json.dumps(record, indent=2, default=str) + "\n")
        others = (
            path for path in folder.iterdir() if not path.name.startswith((".", "checkpoint"))
        )
        seal(
            self.path.parent,
            [path for path in others if path.name not in (self.MODEL, self.PROGRESS, self.LOCK)],
        )

    def records(self) -> dict[str, dict[str, Any]]:
        """Read the records of all finished and imported runs, by id, and check all of their
        keys.
        """
        identifiers = (path.parent.name for path in sorted(self.path.glob(f"*/{self.RECORD}")))
        return {identifier: self.record(identifier, RunRecord) for identifier in identifiers}

    def progress(self, identifier: str) -> dict[str, Any]:
        """Read the progress of an unfinished run: epoch, epochs, attempts and description; empty if
        none is recorded.
        """
        with contextlib.suppress(UserError):  # a running job rewrites a damaged file within seconds
            return read_json(self.folder(identifier) / self.PROGRESS, Progress)
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
        """Lock a run, so that only this process writes to it; the lock is released if the process
        dies.

        Args:
            identifier: the run's id.
            patience: seconds to wait for another process to finish.

        Raises:
            UserError: if another process holds the lock, or the file system does not support locks.
        """
        folder = self.folder(identifier)
        path = folder / self.LOCK
        if patience and (owner := self.owner(identifier)):
            limit = "" if math.isinf(patience) else f"up to {patience:.0f} s "
            log.info(f"{folder}: waiting {limit}for process {owner}, which is writing this run")
        try:
            with writable(path):
                folder.mkdir(parents=True, exist_ok=True)
                lock = _lock(path, patience)
        except Timeout as error:
            raise UserError(
                f"{folder}: process {self.owner(identifier)} is writing this run. Wait until it"
                " ends, or stop it, then try again."
            ) from error
        except OSError as error:
            raise UserError(
                _UNSAFE.format(path=path, problem=f"refuses locks ({error.strerror})")
            ) from error
        with lock:
            # Some network file systems grant every lock.
            with contextlib.suppress(Timeout), _lock(path):
                raise UserError(_UNSAFE.format(path=path, problem="grants the same lock twice"))
            with writable(path):
                path.write_text(f"{os.getpid()} on {platform.node()}")
            # Remove files left behind by processes killed while writing; safetensors writes to
            # files named .tmp….
            for unfinished in [*folder.glob(".*.[0-9]*"), *folder.glob(".tmp*")]:
                unfinished.unlink()
            yield folder


def _lock(path: Path, patience: float = 0.0) -> AcquireReturnProxy:
    """Lock a file with ``flock``, which the kernel releases when the process ends."""
    return FileLock(path, timeout=patience, poll_interval=0.2, fallback_to_soft=False).acquire()


_UNSAFE = (
    "{path}: the file system {problem}, so two processes could write the same run. Put results/ on"
    " a local disk or on a file system that supports flock (Lustre: mounted with -o flock)."
)


def read_manifest(
    path: str | Path, store: RunStore, count: int | None = None
) -> list[dict[str, Any]]:
    """Read the runs of a manifest, each with its seed, id and ``model``, and verify the checksums.

    Args:
        path: the manifest; a run's model is a file, or None if the run was imported, and its
            ``vectors`` are the names of those of its frozen towers, by section.
        store: the store of the runs.
        count: number of runs to read; None: all runs.

    Raises:
        UserError: if a model is missing, is not the one that was trained, or does not match its
            checksum in the manifest.
    """
    manifest = read_json(path, Manifest)
    runs = manifest["runs"][:count]
    for run in runs:
        run["vectors"] = manifest.get("vectors", {})
        if fault := fault_of_listed(run, path, store):
            raise UserError(fault)
        run["model"] = (
            None
            if store.state(run["id"]) == "imported"
            else store.folder(run["id"]) / RunStore.MODEL
        )
    return runs


def fault_of_listed(run: Record, manifest: str | Path, store: RunStore) -> str:
    """Say what is wrong with the files of a run in a manifest, and how to replace them; empty if
    they are intact.
    """
    folder = store.folder(run["id"])
    if store.state(run["id"]) not in RunStore.TRAINED:
        return f"{folder} has no finished run, but {manifest} lists it. {store.removal(run['id'])}"
    try:
        checksum = store.checksum(run["id"])
    except UserError as error:
        return str(error)
    if checksum == run["checksum"]:
        return ""
    # The run was trained again for another study, because the model matches the run's own record.
    return (
        f"{folder} does not contain the model that {manifest} lists. Remove {manifest}, so that"
        " Snakemake lists the run again."
    )

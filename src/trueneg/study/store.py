"""The run store: a folder with one folder a run, named by the run's id.

A run's folder holds ``model.safetensors``, ``training.parquet`` (a row an epoch) and ``run.json`` (what made it). The record is
written last, so a run that has one is finished. No file of it is a declared output of a job: Snakemake deletes those.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trueneg.errors import UserError
from trueneg.files import file_checksum


class RunStore:
    """The folder of runs, ``results/runs``: who is finished, and the files of each.

    Args:
        path: the folder; made when the first run is.
    """

    RECORD, MODEL, CURVES = "run.json", "model.safetensors", "training.parquet"

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def folder(self, identifier: str) -> Path:
        """The folder of a run, whether it exists or not."""
        return self.path / identifier

    def state(self, identifier: str) -> str:
        """``"finished"``, ``"begun"`` or ``"missing"``."""
        folder = self.folder(identifier)
        if (folder / self.RECORD).is_file() and (folder / self.MODEL).is_file():
            return "finished"
        return "begun" if folder.is_dir() else "missing"

    def record(self, identifier: str) -> dict[str, Any]:
        """What made a finished run.

        Raises:
            UserError: if there is no such run, or its record is broken.
        """
        path = self.folder(identifier) / self.RECORD
        try:
            return json.loads(path.read_text())
        except FileNotFoundError as error:
            raise UserError(f"{path}: there is no finished run {identifier}; train it first.") from error
        except ValueError as error:
            raise UserError(f"{path}: is not valid JSON. Remove its folder to have the run trained anew.") from error

    def records(self) -> dict[str, dict[str, Any]]:
        """The records of all finished runs, by id."""
        return {path.parent.name: self.record(path.parent.name) for path in sorted(self.path.glob(f"*/{self.RECORD}"))}

    @contextlib.contextmanager
    def owned(self, identifier: str) -> Iterator[Path]:
        """Hold a run for writing: one process at a time; the kernel frees it when the process dies.

        Raises:
            UserError: if another process holds it.
        """
        folder = self.folder(identifier)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.seek(0)
                owner = lock.read().strip() or "unknown"
                raise UserError(
                    f"{folder}: is being written by process {owner}; wait for it to end, or stop it, and start again."
                ) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield folder


def read_manifest(path: str | Path, store: RunStore) -> list[dict[str, Any]]:
    """The runs that a manifest lists, each with its seed, id and model file, after comparing the checksums.

    Raises:
        UserError: if a model is missing or is not the one that the manifest was written for.
    """
    manifest = json.loads(Path(path).read_text())
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

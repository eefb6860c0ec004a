"""Where an unfinished run stands, on disk, so that a run that dies goes on from there.

Until the run is finished its folder holds ``checkpoint.safetensors`` (tensors; everything else as JSON in the metadata) and
``progress.json`` (the epoch reached and the seconds of every attempt, for people and for the record).
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from trueneg.files import written_whole
from trueneg.study.store import RunStore
from trueneg.training.simclr import SimCLR

log = logging.getLogger(__name__)

HEARTBEAT = 10.0  # seconds between two notes of the progress: what an attempt's time is short of when it is killed
SHARE = 0.01  # of the time, at most, goes into the checkpoints at ends of epochs
FIRST_COST = 0.1  # seconds that the first checkpoint is expected to take; with SHARE: a run of less than 10 s writes none


class Checkpoint:
    """A run's checkpoint: written by timer, and at ends of epochs as often as it is cheap.

    Order of batches and augmentations are drawn from generators keyed by seed, purpose and epoch, so no generator has a state to
    keep: networks, optimiser, running sums of the monitors and the position tell everything.

    Args:
        folder: the run's, which this process owns.
        digest: of settings, data, seed and training code; a checkpoint with another one is moved aside.
        minutes: a checkpoint is written at least so often.
        about: what ``progress.json`` says of the run besides its progress.
    """

    def __init__(self, folder: Path, digest: str, *, minutes: float, about: Mapping[str, Any]):
        self._path, self._progress = folder / RunStore.CHECKPOINT, folder / RunStore.PROGRESS
        self._digest, self._interval, self._about = digest, 60 * minutes, dict(about)
        self._began = self._saved = self._noted = time.monotonic()
        self._cost = FIRST_COST
        earlier = RunStore(folder.parent).progress(folder.name)
        self._earlier = earlier["attempts"] if earlier.get("digest") == digest else []

    @property
    def attempts(self) -> list[float]:
        """Seconds of each attempt, this one last; a killed one may have had up to :data:`HEARTBEAT` more."""
        return [*self._earlier, time.monotonic() - self._began]

    def restore(self, training: SimCLR) -> list[dict[str, Any]]:
        """Bring a fresh run to where the checkpoint stands, if there is one that fits.

        Returns:
            The rows of the epochs that are finished.
        """
        found = self._read() if self._path.exists() else None
        if found is not None:
            tensors, values = found
            training.load_state(tensors, values["position"])
            log.info("continues in epoch %d, %d updates done in it", training.epoch + 1, training.update)
        self._note(training)
        return values["rows"] if found is not None else []

    def after_update(self, training: SimCLR, rows: list[dict[str, Any]]) -> None:
        """Save if the time has come."""
        now = time.monotonic()
        if now - self._saved >= self._interval:
            self._save(training, rows)
        elif now - self._noted >= HEARTBEAT:
            self._note(training)

    def after_epoch(self, training: SimCLR, rows: list[dict[str, Any]]) -> None:
        """Save if that is cheap beside the time since the last one."""
        if time.monotonic() - self._saved >= min(self._interval, self._cost / SHARE):
            self._save(training, rows)

    def _save(self, training: SimCLR, rows: list[dict[str, Any]]) -> None:
        began = time.monotonic()
        tensors, position = training.state()
        values = json.dumps({"digest": self._digest, "position": position, "rows": rows})
        with written_whole(self._path) as path:
            save_file(tensors, path, metadata={"values": values, "checksum": _checksum(tensors, values)})
            flush(path)
        self._note(training)
        self._saved = time.monotonic()
        self._cost = self._saved - began

    def _note(self, training: SimCLR) -> None:
        progress = self._about | {
            "epoch": training.epoch,
            "epochs": training.epochs,
            "digest": self._digest,
            "attempts": [round(seconds, 3) for seconds in self.attempts],
        }
        with written_whole(self._progress) as path:
            path.write_text(json.dumps(progress, indent=2) + "\n")
        self._noted = time.monotonic()

    def _read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and values of the checkpoint; None, and the file moved aside, if it is damaged or another run's."""
        try:
            with safe_open(self._path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            values = json.loads(metadata["values"])
            if metadata["checksum"] != _checksum(tensors, metadata["values"]):
                raise ValueError("its checksum is not that of its content")
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            return self._move_aside("damaged", f"is damaged ({error})")
        if values["digest"] != self._digest:
            return self._move_aside("outdated", "was made with other settings, data or training code")
        return tensors, values

    def _move_aside(self, kind: str, why: str) -> None:
        aside = self._path.with_name(f"checkpoint.{kind}.safetensors")
        self._path.replace(aside)
        log.warning("%s %s; moved to %s, and the run starts afresh", self._path, why, aside.name)


def flush(path: Path) -> None:
    """Have a file on the disk, not only in the machine's memory, before it takes another's place."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _checksum(tensors: Mapping[str, Tensor], values: str) -> str:
    found = hashlib.sha256(values.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()

"""Checkpoints of unfinished runs, from which an interrupted run resumes.

Until a run is finished, its folder contains ``checkpoint.safetensors`` (tensors; everything else as JSON in the metadata) and
``progress.json`` (the epoch reached and the time each attempt took, for people and for the record). The previous checkpoint is
kept too, in case the latest one is damaged.
"""

import hashlib
import json
import logging
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from trueneg.io.files import atomic_write
from trueneg.store.run_store import RunStore

log = logging.getLogger(__name__)

HEARTBEAT = 10.0  # seconds between progress updates; a killed attempt's recorded time can be short by this much
SHARE = 0.01  # maximum fraction of the time spent on checkpoints at the ends of epochs
FIRST_COST = 0.1  # expected seconds for the first checkpoint; with SHARE, a run of less than 10 s writes none


class Resumable(Protocol):
    """A training that counts finished epochs and the updates in the current one, and has a state to resume from."""

    epoch: int
    epochs: int
    update: int

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return tensors on the CPU, and plain values."""

    def load_state(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Resume from the result of :meth:`state`."""


class Checkpoint:
    """Writes a run's checkpoints at regular intervals, and at the ends of epochs when this is cheap.

    Batch order and augmentations are drawn from generators keyed by seed, purpose and epoch, so no generator state needs to be
    saved: networks, optimiser, running sums of the monitors and the position are the complete state.

    Args:
        folder: the run's folder, owned by this process.
        digest: digest of settings, data, seed and training code; a checkpoint with a different digest is moved aside.
        minutes: maximum time between checkpoints.
        about: information about the run, besides its progress, to write to ``progress.json``.
        device: device of the run: ``"cpu"`` or the name of a GPU.
        devices: number of devices.

    Used as a context manager, it also records the time of an attempt that ends with an exception.
    """

    def __init__(
        self, folder: Path, digest: str, *, minutes: float, about: Mapping[str, Any], device: str = "cpu", devices: int = 1
    ):
        self._path, self._progress = folder / RunStore.CHECKPOINT, folder / RunStore.PROGRESS
        self._previous = folder / RunStore.PREVIOUS
        self._digest, self._interval, self._about = digest, 60 * minutes, dict(about)
        self._began = self._saved = self._noted = time.monotonic()
        self._cost = FIRST_COST
        self._earlier = RunStore(folder.parent).progress(folder.name).get("spent", [])
        self._attempt = {
            "began": time.strftime("%Y-%m-%d %H:%M:%S %z"),
            "host": platform.node(),
            "device": device,
            "devices": devices,
            "digest": digest,
        }
        self._position = {"epoch": 0, "epochs": 0}
        self._note()

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is not None:
            self._note()

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """Start time, host, device and seconds of each attempt, with the current one last.

        Attempts with other settings, data or code are included because they also used compute time. A killed attempt may have
        run for up to :data:`HEARTBEAT` seconds longer, or for one update if that takes longer.
        """
        return [*self._earlier, {**self._attempt, "seconds": round(time.monotonic() - self._began, 3)}]

    def spent(self) -> dict[str, Any]:
        """Return ``seconds``, ``gpu_seconds`` (times the number of GPUs) and ``attempts`` of all attempts, for a run's record."""
        attempts = self.attempts
        on_gpu = [attempt["seconds"] * attempt["devices"] for attempt in attempts if attempt["device"] != "cpu"]
        return {
            "seconds": round(sum(attempt["seconds"] for attempt in attempts), 3),
            "gpu_seconds": round(sum(on_gpu), 3),
            "attempts": attempts,
        }

    def restore(self, training: Resumable) -> list[dict[str, Any]]:
        """Restore a new run from the last usable checkpoint, if there is one, and return the rows of the finished epochs."""
        existing = [path for path in (self._path, self._previous) if path.exists()]
        found = next(filter(None, map(self._read, existing)), None)
        rows: list[dict[str, Any]] = []
        if found is not None:
            tensors, values = found
            training.load_state(tensors, values["position"])
            rows = values["rows"]
            log.info("continues in epoch %d, %d updates done in it", training.epoch + 1, training.update)
        elif existing:
            log.warning("%s: the run starts from the beginning", self._path.parent)
        self._note(training)
        return rows

    def after_update(self, training: Resumable, rows: list[dict[str, Any]]) -> None:
        """Save if the checkpoint interval has elapsed."""
        now = time.monotonic()
        if now - self._saved >= self._interval:
            self._save(training, rows)
        elif now - self._noted >= HEARTBEAT:
            self._note(training)

    def after_epoch(self, training: Resumable, rows: list[dict[str, Any]]) -> None:
        """Save if the cost is small compared with the time since the last checkpoint."""
        if time.monotonic() - self._saved >= min(self._interval, self._cost / SHARE):
            self._save(training, rows)

    def _save(self, training: Resumable, rows: list[dict[str, Any]]) -> None:
        began = time.monotonic()
        tensors, position = training.state()
        values = json.dumps({"digest": self._digest, "position": position, "rows": rows})
        metadata = {"values": values, "checksum": _checksum(tensors, values)}
        with atomic_write(self._path) as path:
            path.write_bytes(save(tensors, metadata))
            if self._path.exists():
                self._path.replace(self._previous)
        self._note(training)
        self._saved = time.monotonic()
        self._cost = self._saved - began

    def _note(self, training: Resumable | None = None) -> None:
        if training is not None:
            self._position = {"epoch": training.epoch, "epochs": training.epochs}
        progress = self._about | self._position | {"spent": self.attempts}
        with atomic_write(self._progress) as path:
            path.write_text(json.dumps(progress, indent=2) + "\n")
        self._noted = time.monotonic()

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Read a checkpoint's tensors and values; move it aside and return None if it is damaged or has another digest."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            values = json.loads(metadata["values"])
            if metadata["checksum"] != _checksum(tensors, metadata["values"]):
                raise ValueError("its checksum is not that of its content")
            digest = values["digest"]
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            self._move_aside(path, "damaged", f"is damaged ({error})")
            return None
        if digest != self._digest:
            self._move_aside(path, "outdated", "was made with other settings, data or training code")
            return None
        return tensors, values

    def _move_aside(self, path: Path, kind: str, why: str) -> None:
        aside = path.with_name(f"checkpoint.{kind}.safetensors")
        path.replace(aside)
        log.warning("%s %s; moved to %s", path, why, aside.name)


def _checksum(tensors: Mapping[str, Tensor], values: str) -> str:
    found = hashlib.sha256(values.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()

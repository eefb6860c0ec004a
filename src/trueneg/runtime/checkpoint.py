"""Checkpoints of unfinished runs, from which an interrupted run resumes.

Until a run is finished, its folder contains ``checkpoint.safetensors`` (tensors; everything else as
JSON in the metadata) and ``progress.json`` (the current epoch and the duration of each attempt, for
users and the run's record). The previous checkpoint is kept too, in case the latest one is damaged.
"""

import contextlib
import hashlib
import json
import logging
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Size, Tensor

from trueneg.io.files import atomic_write, write_text
from trueneg.store.run_store import RunStore

log = logging.getLogger(__name__)

# seconds between progress updates; the recorded time of a killed attempt can be too short by this
# much
HEARTBEAT = 10.0
SHARE = 0.01  # maximum fraction of the time that checkpoints after epochs may take
# expected seconds for the first checkpoint; with SHARE, runs shorter than 10 s therefore write none
FIRST_COST = 0.1


class Checkpoint(contextlib.AbstractContextManager):
    """Writes the checkpoints of a run at regular intervals, and at the end of an epoch if that is
    cheap.

    Batch order and augmentations are drawn from generators keyed by seed, purpose and epoch, so no
    generator state needs to be
    saved: networks, optimiser, running sums of the monitors and the position are the complete
    state.

    Its methods take a training object with the attributes ``epoch`` (finished epochs), ``epochs``
    and ``update`` (updates in the current epoch), and with the methods ``state()``, which returns
    tensors on the CPU and plain values, and ``load_state(tensors, values)``. Used as a context
    manager, it also records the time of an attempt that ends with an exception.

    Args:
        folder: the run's folder, owned by this process.
        digest: digest of settings, data, seed and versions of the code; a checkpoint with a
            different digest is moved aside.
        minutes: maximum number of minutes between checkpoints.
        about: information about the run to write to ``progress.json`` along with its progress.
        device: device of the run: ``"cpu"`` or the name of a GPU.
        devices: number of devices.
    """

    def __init__(
        self,
        folder: Path,
        digest: str,
        *,
        minutes: float,
        about: Mapping[str, Any],
        device: str = "cpu",
        devices: int = 1,
    ):
        self._path = folder / RunStore.CHECKPOINT
        self._previous = folder / RunStore.PREVIOUS
        self._digest = digest
        self._interval = 60 * minutes
        self._began = self._saved = self._noted = time.monotonic()
        self._cpu_began = time.process_time()
        self._cost = FIRST_COST
        self._earlier = RunStore(folder.parent).progress(folder.name).get("spent", [])
        began = time.strftime("%Y-%m-%d %H:%M:%S %z")
        self._attempt = {
            "began": began,
            "host": platform.node(),
            "device": device,
            "devices": devices,
            "digest": digest,
        }
        self._progress = {**about, "epoch": 0, "epochs": 0}
        self._note()

    def __exit__(self, *_: object) -> None:
        self._note()

    def spent(self) -> dict[str, Any]:
        """Return the total ``seconds``, ``cpu_seconds`` (processor time of this process) and
        ``gpu_seconds`` (seconds × GPUs) and all ``attempts``, for a run's record.

        An attempt has a start time, host, device, number of devices and these seconds; the current
        attempt is last. Attempts with other settings, data or code are included because they also
        used compute time. A killed attempt may have run for up to :data:`HEARTBEAT` seconds longer,
        or for one update if that takes longer.
        """
        current = {
            **self._attempt,
            "seconds": round(time.monotonic() - self._began, 3),
            "cpu_seconds": round(time.process_time() - self._cpu_began, 3),
        }
        attempts = [*self._earlier, current]
        on_gpu = [
            attempt["seconds"] * attempt["devices"]
            for attempt in attempts
            if attempt["device"] != "cpu"
        ]
        on_cpu = [attempt.get("cpu_seconds", attempt["seconds"]) for attempt in attempts]
        return {
            "seconds": round(sum(attempt["seconds"] for attempt in attempts), 3),
            "cpu_seconds": round(sum(on_cpu), 3),
            "gpu_seconds": round(sum(on_gpu), 3),
            "attempts": attempts,
        }

    def restore(self, training: Any) -> list[dict[str, Any]]:
        """Load the last usable checkpoint, if there is one, into a new training object; return the
        rows of finished epochs.
        """
        existing = [path for path in (self._path, self._previous) if path.exists()]
        shapes = (
            {name: tensor.shape for name, tensor in training.state()[0].items()} if existing else {}
        )
        usable = filter(None, (self._read(path, shapes) for path in existing))
        tensors, values = next(usable, (None, {"rows": []}))
        if tensors is not None:
            training.load_state(tensors, values["position"])
            log.info(
                "the run resumes in epoch %d after %d updates of that epoch",
                training.epoch + 1,
                training.update,
            )
        elif existing:
            log.warning(
                "%s has no usable checkpoint; the run starts from the beginning", self._path.parent
            )
        self._note(training)
        return values["rows"]

    def after_update(self, training: Any, rows: list[dict[str, Any]]) -> None:
        """Save if the maximum time between checkpoints has passed."""
        now = time.monotonic()
        if now - self._saved >= self._interval:
            self._save(training, rows)
        elif now - self._noted >= HEARTBEAT:
            self._note(training)

    def after_epoch(self, training: Any, rows: list[dict[str, Any]]) -> None:
        """Save if the cost is small compared with the time since the last checkpoint."""
        if time.monotonic() - self._saved >= min(self._interval, self._cost / SHARE):
            self._save(training, rows)

    def _save(self, training: Any, rows: list[dict[str, Any]]) -> None:
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

    def _note(self, training: Any = None) -> None:
        """Write ``progress.json``."""
        if training is not None:
            self._progress |= {"epoch": training.epoch, "epochs": training.epochs}
        progress = self._progress | {"spent": self.spent()["attempts"]}
        write_text(self._path.with_name(RunStore.PROGRESS), json.dumps(progress, indent=2) + "\n")
        self._noted = time.monotonic()

    def _read(
        self, path: Path, shapes: Mapping[str, Size]
    ) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Read a checkpoint's tensors and values; move it aside and return None if it is damaged,
        or not of this run and code.

        A monitor that was added since has no version, but its tensors are missing; optimizers have
        none before their first step.
        """
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                names = file.keys()  # it is not a mapping
                tensors = {name: file.get_tensor(name) for name in names}
            values = json.loads(metadata["values"])
            if metadata["checksum"] != _checksum(tensors, metadata["values"]):
                raise ValueError("its checksum does not match its content")
            of_this_code = all(
                name in tensors and tensors[name].shape == shape for name, shape in shapes.items()
            )
            if values["digest"] == self._digest and of_this_code:
                return tensors, values
            kind = "outdated"
            reason = "was made with different settings, data or versions of the code"
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            kind = "damaged"
            reason = f"is damaged ({error})"
        aside = path.replace(path.with_name(f"checkpoint.{kind}.safetensors"))
        log.warning("%s %s; moved to %s", path, reason, aside.name)
        return None


def _checksum(tensors: Mapping[str, Tensor], values: str) -> str:
    digest = hashlib.sha256(values.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()

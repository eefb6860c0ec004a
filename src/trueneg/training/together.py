"""A training job on several devices: a process for each, which this one starts, listens to, and ends if one of them fails."""

import contextlib
import json
import logging
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from trueneg.errors import UserError

log = logging.getLogger(__name__)

PATIENCE = 600.0  # seconds that a process waits for the others in an exchange
GRACE = 2.0  # seconds that the other processes get to tell what they failed of, too
POLL_SECONDS = 0.05
JOB, MEETING, FAILED = "job.json", "meeting", "failed-{rank}"  # files that the processes share


def train_together(job: Mapping[str, Any], devices: str, count: int, patience: float = PATIENCE) -> None:
    """Have processes train the runs of a job; see :mod:`trueneg.training.worker`.

    They end with this one, however it ends. What they log, this one logs.

    Args:
        job: arguments of :func:`trueneg.training.engine.read_block`, as plain values.
        devices: ``"cpu"`` or ``"cuda"``; of the visible devices each process takes the one with its own number.
        count: of processes.
        patience: seconds that a process waits for the others in an exchange.

    Raises:
        UserError: with the sentence of a process that ended with one; or if one was killed, or waited in vain.
        RuntimeError: if one ended with another error, whose traceback is in the log.
    """
    with tempfile.TemporaryDirectory(prefix="trueneg-") as name, contextlib.ExitStack() as started:
        folder = Path(name)
        (folder / JOB).write_text(json.dumps({"block": dict(job), "devices": devices, "count": count, "patience": patience}))
        workers, said = zip(*(started.enter_context(_worker(folder, rank)) for rank in range(count)), strict=True)
        log.info("%d processes share each batch", count)
        while any(worker.poll() is None for worker in workers) and not any(worker.poll() for worker in workers):
            time.sleep(POLL_SECONDS)
        if not any(worker.poll() for worker in workers):
            return
        first = next(rank for rank, worker in enumerate(workers) if worker.poll())
        until = time.monotonic() + GRACE
        while any(worker.poll() is None for worker in workers) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        _tell(folder, workers, said, first)


@contextlib.contextmanager
def _worker(folder: Path, rank: int) -> Iterator[tuple[subprocess.Popen, "_Words"]]:
    # It ends when it cannot read from here any more: with this process.
    command = [sys.executable, "-m", "trueneg.training.worker", str(folder), str(rank)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        words = _Words(rank, process.stderr)
        try:
            yield process, words
        finally:
            process.kill()
            words.all()


class _Words:
    """What a process says, handed on to the log line by line; the last lines are kept."""

    def __init__(self, rank: int, stream: IO[str]):
        self.last: list[str] = []
        self._form = "%s" if rank == 0 else f"process {rank}: %s"
        self._reader = threading.Thread(target=self._listen, args=(stream,), daemon=True)
        self._reader.start()

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            log.info(self._form, line.rstrip())
            self.last = [*self.last[-20:], line.rstrip()]

    def all(self) -> list[str]:
        """The last lines, when the process has ended."""
        self._reader.join()
        return self.last


def _tell(folder: Path, workers: Sequence[subprocess.Popen], said: Sequence[_Words], first: int) -> None:
    """Raise what the processes failed of: a sentence of one of them before the consequences that it had for others."""
    for rank in range(len(workers)):
        path = folder / FAILED.format(rank=rank)
        if path.is_file():
            raise UserError(path.read_text())
    killed = [rank for rank, worker in enumerate(workers) if (worker.poll() or 0) < 0]
    if killed:
        name = signal.Signals(-workers[killed[0]].returncode).name
        raise UserError(
            f"Process {killed[0]} of the {len(workers)} that train together was ended by {name}, so the others were ended. If "
            "the memory did not suffice, raise training.mem_mb; start again: the training continues from its checkpoint."
        )
    words = said[first].all()
    if any("imed out" in line or "imeout" in line for line in words):
        raise UserError(
            f"Process {first} of the {len(workers)} that train together waited in vain for another one, so all were ended. Start "
            "again: the training continues from its checkpoint; if it happens again, set training.devices to 1."
        )
    raise RuntimeError(f"process {first} of {len(workers)} failed: {words[-1] if words else 'without a word'}")

"""Training runs that are interrupted: jobs in separate processes that can be killed, and runs that
stop within a process.
"""

import multiprocessing
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.studies import first_run, tiny_study
from trueneg.data.images.image_source import write_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.samples import write_subsets
from trueneg.runtime.checkpoint import Checkpoint
from trueneg.store.run_store import RunStore

# Processes are forked from one that has only imported these modules, which takes milliseconds
# instead of seconds.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["trueneg.training.engine", "torch._dynamo", "tests.training.interrupted"]
)

EVERY_UPDATE = 1e-9  # checkpoint_minutes


class KilledError(Exception):
    """Simulates a kill within a process."""


def assert_same_weights(first: Any, second: Any) -> None:
    for name, value in first.weights().items():
        assert torch.equal(value, second.weights()[name]), name


def without_times(rows: list[dict[str, Any]]) -> str:
    """Return the rows of a run as text, which also compares NaN, without durations."""
    times = {"seconds", "views_per_second", "pairs_per_second"}
    return repr([{key: value for key, value in row.items() if key not in times} for row in rows])


def train_to_the_end(run: Any, folder: Path, stop_after: int | None = None) -> list[dict[str, Any]]:
    """Continue a run from the checkpoint in a folder, or until killed after ``stop_after`` updates;
    return its rows.
    """
    checkpoint, done = Checkpoint(folder, "digest", minutes=EVERY_UPDATE, about={}), 0
    rows = checkpoint.restore(run)

    def after_update() -> None:
        nonlocal done
        checkpoint.after_update(run, rows)
        done += 1
        if done == stop_after:
            raise KilledError

    while run.epoch < run.epochs:
        rows.append({"epoch": run.epoch + 1, **run.train_epoch(after_update)})
        checkpoint.after_epoch(run, rows)
    return rows


@dataclass(frozen=True)
class Job:
    """A training job with one run on the digits, in a separate folder."""

    folder: Path
    runs: list[dict[str, Any]]

    @property
    def store(self) -> RunStore:
        return RunStore(self.folder / "runs")

    @property
    def run(self) -> Path:
        """The folder of the job's run."""
        (lock,) = self.store.path.glob(f"*/{RunStore.LOCK}")
        return lock.parent

    @property
    def model(self) -> bytes:
        return (self.run / RunStore.MODEL).read_bytes()

    @property
    def record(self) -> dict[str, Any]:
        return self.store.record(self.run.name)

    def arguments(self) -> dict[str, Any]:
        paths = {
            "source": "source.npz",
            "subsets": "subsets.parquet",
            "store": "runs",
            "manifest": "manifest.json",
        }
        return {"runs": self.runs} | {name: self.folder / path for name, path in paths.items()}

    def start(self) -> multiprocessing.Process:
        process = CONTEXT.Process(target=_train, kwargs=self.arguments())
        process.start()
        return process

    def finish(self) -> "Job":
        process = self.start()
        process.join(600)
        if process.exitcode != 0:
            raise AssertionError(f"the training ended with {process.exitcode}")
        return self

    def killed_after(self, seconds: float) -> bool:
        """Start the job and kill it; return whether it was still running."""
        process = self.start()
        process.join(seconds)
        process.kill()
        process.join()
        return process.exitcode != 0

    def killed_at(self, name: str, moment: str) -> None:
        """Kill the job when a file of the run is ``"half written"``, or has just been
        ``"written"``.
        """
        process = CONTEXT.Process(target=_train_until, args=(name, moment), kwargs=self.arguments())
        process.start()
        process.join(600)
        if process.exitcode != -signal.SIGKILL:
            raise AssertionError(f"the training ended with {process.exitcode}")


def _train(**arguments: Any) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from trueneg.training.engine import train_runs

    train_runs(**arguments)


def _train_until(name: str, moment: str, **arguments: Any) -> None:
    replace = os.replace

    def replace_or_die(temporary: Path, path: Path) -> None:
        if path.name == name and moment == "half written":
            os.truncate(temporary, temporary.stat().st_size // 2)
        else:
            replace(temporary, path)
        if path.name == name:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace_or_die
    _train(**arguments)


def new_job(folder: Path, objective: str = "DCL-true", **training: Any) -> Job:
    """Return a job of a few seconds that writes a checkpoint after every update, unless `training`
    overrides this.
    """
    changes = {"epochs": 3, "schedule": "cosine", "checkpoint_minutes": EVERY_UPDATE} | training
    study = tiny_study(training=tiny_study()["training"] | changes)
    run = first_run("tiny", {"tiny": study}, objective)
    source = load_source("digits")
    folder.mkdir(parents=True, exist_ok=True)
    write_source(source, folder / "source.npz")
    subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
    write_subsets([subset], folder / "subsets.parquet")
    return Job(folder, [run.to_json()])

"""A study whose training can be interrupted, and its results."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.projects import Project
from tests.studies import tiny_study
from trueneg.store.run_store import RunStore

EPOCHS = 20
PATIENCE = 3600.0  # seconds; on an idle machine it takes one minute
Value = TypeVar("Value")


def interruptible_study() -> dict[str, Any]:
    """Return a study of two runs that write a checkpoint every tenth of a second."""
    study = tiny_study(seeds=1)
    del study["objectives"]["DCL-true"]
    study["primary"]["treatment"] = "Oracle"
    technical = {"checkpoint_minutes": 1 / 600, "mem_mb": 1500, "runtime": 40}
    study["training"] |= {"epochs": EPOCHS, **technical}
    return study


def with_gpu_request(project: Project, request: str) -> Project:
    """Let the training jobs of a project request a GPU from the cluster, which only claims to have
    one: they run on the CPU.
    """
    for path in project.path.glob("profiles/*/profile.yaml"):
        path.write_text(
            path.read_text().replace(
                "\nset-resources:\n", f"\nset-resources:\n  train: {{{request}}}\n"
            )
        )
    return project


CL = "results/tiny/manifests/digits/CL/seed0.json"


def store(project: Project) -> RunStore:
    return RunStore(project.path / "results/runs")


def running_runs(project: Project) -> dict[str, str]:
    """Return the objectives of the runs between their first and last epochs, by id."""
    progress = {
        path.parent.name: store(project).progress(path.parent.name)
        for path in (store(project).path).glob("*/progress.json")
    }
    return {
        run: found["objective"]
        for run, found in progress.items()
        if 0 < found.get("epoch", 0) < EPOCHS - 5
    }


def weights(project: Project) -> dict[str, bytes]:
    """Return the content of every model's file, by the run's id."""
    return {
        path.parent.name: path.read_bytes()
        for path in store(project).path.glob("*/model.safetensors")
    }


def training_log(project: Project, objective: str) -> str:
    (path,) = Path(project.path / "results/tiny/logs/train").glob(f"*/{objective}/*.log")
    return path.read_text()


def wait_for(condition: Callable[[], Value], seconds: float) -> Value:
    """Wait until the condition holds and return its value; fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{condition} was not met within {seconds} s")
        time.sleep(0.05)
    return found

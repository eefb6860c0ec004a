"""A killed workflow leaves no process behind, and the same command finishes what it began;
tests/chaos kills at random.
"""

import json
import shutil
import subprocess
import time

import pytest

from tests.projects import new_project
from tests.studies import tiny_study
from tests.training.interrupted import EVERY_UPDATE, Job
from trueneg.planning.folder_lock import LOCKS, OWNERS
from trueneg.store.run_store import RunStore
from trueneg.training.engine import train_runs

pytestmark = pytest.mark.long


def study_with_checkpoints(**training):
    """The tiny study with a checkpoint after every update."""
    return tiny_study(
        training=tiny_study()["training"] | {"checkpoint_minutes": EVERY_UPDATE} | training
    )


def is_running(process: str) -> bool:
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", process], capture_output=True, text=True
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")


def within(seconds, condition):
    """Whether the condition becomes true within some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def kill(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()


def test_a_killed_snakemake_leaves_no_trainer_and_the_same_command_trains_the_same_models(tmp_path):
    project = new_project(tmp_path / "project")
    study = study_with_checkpoints(epochs=12) | {"seeds": 1}
    del study["objectives"]["DCL-true"]
    study["primary"]["treatment"] = "Oracle"
    project.configure(tiny=study)
    store = RunStore(project.path / "results/runs")

    snakemake = project.start("models")
    assert within(
        300,
        lambda: [
            path
            for path in store.path.glob("*/progress.json")
            if store.progress(path.parent.name)["epoch"]
        ],
    )
    owners = {
        path.parent.name: store.owner(path.parent.name)
        for path in store.path.glob("*/progress.json")
    }
    trainers = [owner.split()[0] for owner in owners.values() if owner]
    assert trainers
    assert all(map(is_running, trainers))
    kill(snakemake)
    assert within(120, lambda: not any(map(is_running, trainers)))
    # also of trainers that started in between
    assert within(120, lambda: all(store.owner(run) is None for run in owners))
    assert any(store.state(run) == "started" for run in owners)

    project.run("models", "--unlock")
    project.run("models")
    logs = "".join(
        path.read_text() for path in project.path.glob("results/tiny/logs/train/**/*.log")
    )
    assert "resumes in epoch" in logs

    (source,) = project.path.glob("results/sources/*.npz")
    (subsets,) = project.path.glob("results/tiny/subsets/**/*.parquet")
    for run in owners:
        record = store.record(run)
        settings = {
            key: record[key] for key in ("study", "dataset", "objective", "seed", "settings")
        }
        uninterrupted = Job(tmp_path / "uninterrupted" / run, [settings])
        uninterrupted.folder.mkdir(parents=True)
        shutil.copy2(source, uninterrupted.folder / "source.npz")
        shutil.copy2(subsets, uninterrupted.folder / "subsets.parquet")
        train_runs(**uninterrupted.arguments())
        assert uninterrupted.model == (store.folder(run) / RunStore.MODEL).read_bytes()
        assert (
            json.loads((uninterrupted.folder / "manifest.json").read_text())["runs"][0]["id"] == run
        )


def test_a_second_workflow_in_the_same_folder_stops_and_says_why(tmp_path):
    project = new_project(tmp_path / "project")
    project.configure(tiny=study_with_checkpoints(epochs=200))
    first = project.start("models")
    assert within(120, lambda: any((project.path / OWNERS).glob("*")))
    second = project.snakemake("models")
    assert second.returncode
    assert (
        "Directory cannot be locked. Please make sure that no other Snakemake process"
        in second.stdout + second.stderr
    )
    assert f"process {first.pid} on" in second.stderr
    assert "Do not unlock" in second.stderr
    assert "Traceback" not in second.stdout + second.stderr
    refused = project.snakemake("models", "--unlock")
    assert refused.returncode
    assert "TRUENEG_FORCE_UNLOCK=1" in refused.stdout + refused.stderr
    assert list((project.path / LOCKS).iterdir())
    assert first.poll() is None
    kill(first)
    assert "was killed and left a lock" in project.snakemake("models").stderr
    project.run("models", "--unlock")

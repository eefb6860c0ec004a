"""A workflow that is killed leaves nobody at work, and the same command finishes what it began."""

import json
import os
import random
import shutil
import subprocess
import sys
import time

import pandas as pd
import pytest

from tests.projects import Project, new_project
from tests.studies import tiny_study
from tests.training.interrupted import EVERY_UPDATE, Job
from trueneg.planning.folder_lock import OWNER
from trueneg.store.run_store import RunStore
from trueneg.training.engine import train_runs


def start(project: Project, *arguments: str) -> subprocess.Popen:
    """The command of ``Project.snakemake``, left running."""
    environment = os.environ | {"PYTHONPATH": str(project.path / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "snakemake", *arguments, "--cores", "2", "--configfile", "study.yaml"],
        cwd=project.path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def studied(**training):
    return tiny_study(training=tiny_study()["training"] | {"checkpoint_minutes": EVERY_UPDATE} | training)


def lives(process: str) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", process], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def within(seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.long
def test_a_killed_snakemake_leaves_no_trainer_and_the_same_command_finishes_with_the_same_models(tmp_path):
    project = new_project(tmp_path / "project")
    study = studied(epochs=12) | {"seeds": 1}
    del study["objectives"]["DCL-true"]
    study["primary"]["treatment"] = "Oracle"
    project.configure(tiny=study)
    store = RunStore(project.path / "results/runs")

    snakemake = start(project, "models")
    assert within(300, lambda: [path for path in store.path.glob("*/progress.json") if store.progress(path.parent.name)["epoch"]])
    owners = {path.parent.name: store.owner(path.parent.name) for path in store.path.glob("*/progress.json")}
    trainers = [owner.split()[0] for owner in owners.values() if owner]
    assert trainers
    assert all(map(lives, trainers))
    snakemake.kill()
    snakemake.wait()
    assert within(120, lambda: not any(map(lives, trainers)))
    assert within(120, lambda: all(store.owner(run) is None for run in owners))  # of a trainer that started in between, too
    assert any(store.state(run) == "started" for run in owners)

    project.run("models", "--unlock")
    project.run("models")
    logs = "".join(path.read_text() for path in project.path.glob("results/tiny/logs/train/**/*.log"))
    assert "resumes in epoch" in logs

    for run in owners:
        record = store.record(run)
        peaceful = Job(
            tmp_path / "peaceful" / run, [{key: record[key] for key in ("study", "dataset", "objective", "seed", "settings")}]
        )
        peaceful.folder.mkdir(parents=True)
        (source,) = project.path.glob("results/sources/*.npz")
        (subsets,) = project.path.glob("results/tiny/subsets/**/*.parquet")
        shutil.copy2(source, peaceful.folder / "source.npz")
        shutil.copy2(subsets, peaceful.folder / "subsets.parquet")
        train_runs(**peaceful.arguments())
        assert peaceful.model == (store.folder(run) / RunStore.MODEL).read_bytes()
        assert json.loads((peaceful.folder / "manifest.json").read_text())["runs"][0]["id"] == run


@pytest.mark.long
def test_a_second_workflow_in_the_same_folder_stops_and_says_why(tmp_path):
    project = new_project(tmp_path / "project")
    project.configure(tiny=studied(epochs=200))
    first = start(project, "models")
    assert within(120, lambda: (project.path / OWNER).is_file())
    second = project.snakemake("models")
    assert second.returncode
    assert "Directory cannot be locked. Please make sure that no other Snakemake process" in second.stdout + second.stderr
    assert f"process {first.pid} on" in second.stderr
    assert "Do not unlock" in second.stderr
    assert "Traceback" not in second.stdout + second.stderr
    assert first.poll() is None
    first.kill()
    first.wait()
    assert "was killed and left a lock" in project.snakemake("models").stderr
    project.run("models", "--unlock")


@pytest.mark.long
def test_a_workflow_killed_at_twenty_random_moments_ends_with_the_same_models_and_rows(finished_project, tmp_path):
    """Whatever is at work then: data, training, the writing of checkpoints, evaluation, figures."""
    project = new_project(tmp_path / "project")
    project.configure(tiny=studied())
    draw = random.Random(5)
    killed = 0
    while killed < 20:
        snakemake = start(project)
        try:
            snakemake.wait(draw.uniform(2, 15))
            assert snakemake.returncode == 0
            shutil.rmtree(project.path / "results")  # it came to its end: from the beginning
        except subprocess.TimeoutExpired:
            snakemake.kill()
            snakemake.wait()
            killed += 1
            project.run("--unlock")
    project.run()
    rows = [pd.read_parquet(found.path / "results/tiny/artefacts/rows.parquet") for found in (project, finished_project)]
    pd.testing.assert_frame_equal(*rows)
    models = [
        {path.parent.name: path.read_bytes() for path in found.path.glob("results/runs/*/model.safetensors")}
        for found in (project, finished_project)
    ]
    assert models[0] == models[1]

"""Studies through a real one-node Slurm."""

import os
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from tests.cluster.slurm import devices, finish
from tests.cluster.studies import (
    CL,
    PATIENCE,
    interruptible_study,
    running_runs,
    store,
    training_log,
    wait_for,
    weights,
    with_gpu_request,
)
from tests.projects import Project, new_project


def attempts(project: Project) -> dict[str, int]:
    """Return the recorded number of attempts of each run, by objective."""
    return {
        record["objective"]: len(record["attempts"]) for record in store(project).records().values()
    }


@pytest.mark.long
def test_a_study_with_a_cancelled_training_job_has_the_local_results(slurm, local, tmp_path):
    project = with_gpu_request(new_project(tmp_path / "project"), "gpu: 1")
    project.configure(tiny=interruptible_study())
    submitted = slurm.submit(project, "rows")
    objective = next(iter(wait_for(lambda: running_runs(project), PATIENCE).values()))
    (cancelled,) = slurm.jobs(project, f"train_wildcards_tiny_digits_{objective}")
    slurm.run("scancel", cancelled["JobId"])
    finish(submitted, project)

    assert weights(project) == weights(local)
    rows = [
        pd.read_parquet(found.path / "results/tiny/artefacts/rows.parquet")
        for found in (project, local)
    ]
    pd.testing.assert_frame_equal(*rows)
    for manifest in (local.path / "results/tiny/manifests").rglob("*.json"):
        assert (project.path / manifest.relative_to(local.path)).read_text() == manifest.read_text()

    first, second = slurm.jobs(project, f"train_wildcards_tiny_digits_{objective}")
    assert (first["JobState"], second["JobState"]) == ("CANCELLED", "COMPLETED")
    assert ("mem=1500M" in first["TRES"], first["TimeLimit"]) == (True, "00:40:00")
    assert ("mem=3000M" in second["TRES"], second["TimeLimit"]) == (True, "01:20:00")
    assert attempts(project) == {"CL": 1, "Oracle": 1} | {objective: 2}
    assert "resumes in epoch" in training_log(project, objective)

    jobs = {
        name: slurm.jobs(project, name)
        for name in ("source", "splits", "train", "evaluate", "compare")
    }
    assert {name: len(records) for name, records in jobs.items()} == {
        "source": 1,
        "splits": 1,
        "train": 3,
        "evaluate": 2,
        "compare": 1,
    }
    seen = devices(project)
    assert {
        seen[job["JobId"]]
        for name in ("source", "splits", "evaluate", "compare")
        for job in jobs[name]
    } == {"none"}
    assert {seen[job["JobId"]] for job in jobs["train"]} == {"0", "1"}
    for one, other in combinations(jobs["train"], 2):
        if one["StartTime"] < other["EndTime"] and other["StartTime"] < one["EndTime"]:
            assert seen[one["JobId"]] != seen[other["JobId"]]
    assert {job["Requeue"] for records in jobs.values() for job in records} == {"0"}


@pytest.mark.long
def test_training_resumes_when_its_failed_node_returns(slurm, local, tmp_path):
    project = with_gpu_request(local.copy(tmp_path / "project"), "gres: gpu:1")
    for made in ("runs", "tiny/manifests", "tiny/logs/train"):
        shutil.rmtree(project.path / "results" / made)
    (node,) = slurm.run("sinfo", "--noheader", "--format", "%n").split()
    submitted = slurm.submit(project, CL)
    wait_for(lambda: running_runs(project), PATIENCE)
    slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
    assert slurm.run("sinfo", "--noheader", "--format", "%T").strip() == "draining"
    assert running_runs(project)
    slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    wait_for(lambda: [job for job in slurm.jobs(project) if job["JobState"] == "PENDING"], PATIENCE)
    slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    finish(submitted, project)

    ((run, weight),) = weights(project).items()
    assert weight == weights(local)[run]
    failed, done = jobs = slurm.jobs(project, "train")
    assert (failed["JobState"], done["JobState"]) == ("NODE_FAIL", "COMPLETED")
    for job in jobs:
        assert (job["TresPerNode"], "TresPerJob" in job) == ("gres:gpu:1", False)
        assert devices(project)[job["JobId"]] in ("0", "1")
    assert attempts(project) == {"CL": 2}
    assert "resumes in epoch" in training_log(project, "CL")


@pytest.mark.long
def test_one_training_job_with_two_devices_sees_both_also_in_a_folder_with_a_space(slurm, tmp_path):
    project = with_gpu_request(new_project(tmp_path / "my project é"), "gpu: 2")
    study = interruptible_study()
    study["training"] |= {"devices": 2, "epochs": 2}
    project.configure(tiny=study)
    finish(slurm.submit(project, CL), project)
    assert list(devices(project).values()) == ["none", "none", "0,1"]  # source, subsets, training
    assert len(weights(project)) == 1


def test_a_killed_slurm_leaves_no_process_and_no_file(script):
    configuration = sorted(Path("/etc/slurm").rglob("*"))
    up = subprocess.Popen(
        [
            script,
            "sh",
            "-c",
            "pgrep -c 'munged|slurm(ctl)?d'; readlink /proc/self/ns/pid; sleep 60",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(up.stdout.readline()) == 3
    namespace = up.stdout.readline().strip()
    assert members(namespace)
    up.kill()
    up.wait()
    up.stdout.close()
    wait_for(lambda: not members(namespace), 10)
    assert sorted(Path("/etc/slurm").rglob("*")) == configuration


def members(namespace: str) -> list[str]:
    """Return the ids of the processes of a process namespace."""
    found = []
    for link in Path("/proc").glob("[0-9]*/ns/pid"):
        try:
            if os.readlink(link) == namespace:
                found.append(link.parts[2])
        except OSError:  # the process ended
            continue
    return found

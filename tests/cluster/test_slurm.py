"""Training jobs through a real one-node Slurm."""

import os
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path

import pytest

from tests.projects import Project, new_project
from tests.studies import tiny_study


def weights(project: Project) -> dict[str, bytes]:
    """Every model's file, by the run's id."""
    return {path.parent.name: path.read_bytes() for path in project.path.glob("results/runs/*/model.safetensors")}


def submit(slurm: Path, project: Project, *arguments: str) -> None:
    """Run Snakemake with the project's cluster profile; what Slurm knows of the jobs ends in jobs.txt."""
    snakemake = [
        sys.executable,
        "-m",
        "snakemake",
        *arguments,
        "--workflow-profile",
        "profiles/slurm",
        "--configfile",
        "study.yaml",
    ]
    # This Slurm keeps no accounts, hence no history for sacct; and nobody minds how often it is asked.
    here = ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2"]
    here += ["--default-resources", "slurm_partition=main"]
    path = f"{project.path / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [slurm, "sh", "-ec", '"$@"; scontrol --oneliner --details show jobs >jobs.txt', "sh", *snakemake, *here],
        cwd=project.path,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)


def jobs_of(project: Project, rule: str) -> list[dict[str, str]]:
    """Slurm's records of a rule's jobs, each with the devices that it saw."""
    devices = dict(line.split() for line in (project.path / "devices.txt").read_text().splitlines())
    records = [
        dict(field.split("=", 1) for field in line.split() if "=" in field)
        for line in (project.path / "jobs.txt").read_text().splitlines()
    ]
    mine = [record for record in records if record["Comment"].startswith(f"rule_{rule}_")]
    return [record | {"devices": devices[record["JobId"]]} for record in mine]


@pytest.mark.long
def test_models_trained_through_slurm_equal_those_trained_here(slurm, tmp_path):
    study = tiny_study()
    study["training"] |= {"gpu": 1, "mem_mb": 3000, "runtime": 7}
    here, cluster = new_project(tmp_path / "here"), new_project(tmp_path / "cluster")
    for project in (here, cluster):
        project.configure(tiny=study)
    here.run("models")
    submit(slurm, cluster, "models")

    assert len(weights(here)) == 3 * 2
    assert weights(cluster) == weights(here)
    for manifest in (here.path / "results/tiny/manifests").rglob("*.json"):
        assert (cluster.path / manifest.relative_to(here.path)).read_text() == manifest.read_text()

    jobs = {rule: jobs_of(cluster, rule) for rule in ("source", "subsets", "train")}
    assert {rule: len(records) for rule, records in jobs.items()} == {"source": 1, "subsets": 1, "train": 3}
    assert {job["JobState"] for records in jobs.values() for job in records} == {"COMPLETED"}
    assert {job["devices"] for job in jobs["source"] + jobs["subsets"]} == {"none"}
    for job in jobs["train"]:
        assert "mem=3000M" in job["TRES"]
        assert job["TimeLimit"] == "00:07:00"
        assert job["Requeue"] == "0"
    assert {job["devices"] for job in jobs["train"]} == {"0", "1"}
    for one, other in combinations(jobs["train"], 2):
        if one["StartTime"] < other["EndTime"] and other["StartTime"] < one["EndTime"]:
            assert one["devices"] != other["devices"]


def test_a_killed_slurm_leaves_no_process_and_no_file(slurm):
    configuration = sorted(Path("/etc/slurm").rglob("*"))
    script = subprocess.Popen(
        [slurm, "sh", "-c", "pgrep -c 'munged|slurm(ctl)?d'; readlink /proc/self/ns/pid; sleep 60"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(script.stdout.readline()) == 3
    namespace = script.stdout.readline().strip()
    assert members(namespace)
    script.kill()
    script.wait()
    script.stdout.close()
    patience = time.monotonic() + 10
    while members(namespace) and time.monotonic() < patience:
        time.sleep(0.1)
    assert not members(namespace)
    assert sorted(Path("/etc/slurm").rglob("*")) == configuration


def members(namespace: str) -> list[str]:
    """Ids of the processes of a process namespace."""
    found = []
    for link in Path("/proc").glob("[0-9]*/ns/pid"):
        try:
            if os.readlink(link) == namespace:
                found.append(link.parts[2])
        except OSError:  # it ended meanwhile
            continue
    return found

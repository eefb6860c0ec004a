"""The profile for other schedulers, with a minimal PBS on the path."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
from tests.projects import new_project


@pytest.mark.long
def test_a_cancelled_training_job_is_resubmitted_and_resumes(local, tmp_path):
    if importlib.util.find_spec("snakemake_executor_plugin_cluster_generic") is None:
        pytest.skip(
            "Snakemake's cluster-generic plugin is not installed here; `make test-cluster`"
            " fetches it."
        )
    project, jobs = with_gpu_request(new_project(tmp_path / "project"), "gpu: 1"), tmp_path / "jobs"
    project.configure(tiny=interruptible_study())
    jobs.mkdir()
    environment = os.environ | {
        "PATH": f"{Path(__file__).with_name('pbs')}:{os.environ['PATH']}",
        "PYTHONPATH": f"{project.path / 'src'}:{os.environ.get('PYTHONPATH', '')}",
        "PRETENDED_PBS": str(jobs),
        "OMP_NUM_THREADS": "1",
    }
    snakemake = [
        sys.executable,
        "-m",
        "snakemake",
        CL,
        "--workflow-profile",
        "profiles/cluster-generic",
    ]
    snakemake += ["--configfile", "study.yaml", "--seconds-between-status-checks", "1"]
    with (project.path / "snakemake.txt").open("w") as printed:
        submitted = subprocess.Popen(
            snakemake, cwd=project.path, env=environment, stdout=printed, stderr=subprocess.STDOUT
        )

    def requests(words: str) -> dict[str, str]:
        """Return the requests of the jobs whose request or script contains the words, in the order
        of their ids.
        """
        folders = sorted(jobs.iterdir(), key=lambda folder: int(folder.name))
        asked = {folder.name: (folder / "request").read_text() for folder in folders}
        return {
            job: text
            for job, text in asked.items()
            if words in text + (jobs / job / "script").read_text()
        }

    wait_for(lambda: running_runs(project), PATIENCE)
    (ended,) = requests(CL)
    subprocess.run(
        [project.path / "profiles/cluster-generic/cancel", f"{ended}.pretended"],
        check=True,
        env=environment,
    )
    if submitted.wait(PATIENCE):
        raise AssertionError((project.path / "snakemake.txt").read_text())

    ((run, weight),) = weights(project).items()
    assert weight == weights(local)[run]
    assert len(requests("")) == 4  # source, splits, and the training twice
    assert "-l select=1:ncpus=1:mem=4000mb -l" in next(iter(requests("-N splits").values()))
    first, second = requests(CL).values()
    assert "-N train -l select=1:ncpus=1:mem=1500mb:ngpus=1 -l walltime=0:40:00" in first
    assert "-N train -l select=1:ncpus=1:mem=3000mb:ngpus=1 -l walltime=1:20:00" in second
    assert len(store(project).record(run)["attempts"]) == 2
    assert "resumes in epoch" in training_log(project, "CL")


@pytest.mark.parametrize(
    ("answer", "status", "expected"),
    [
        ("Job Id: 7\n    job_state = Q\n", 0, "running"),
        ("Job Id: 7\n    job_state = R\n", 0, "running"),
        ("Job Id: 7\n    job_state = F\n    Exit_status = 0\n", 0, "success"),
        ("Job Id: 7\n    Exit_status = 271\n    job_state = F\n", 0, "failed"),
        ("Job Id: 7\n    job_state = F\n", 0, "failed"),  # deleted before it started
        ("qstat: Unknown Job Id 7", 153, "failed"),
        ("Connection refused\nqstat: cannot connect to server", 255, "running"),
    ],
)
def test_the_status_of_a_job_follows_from_the_output_of_qstat(answer, status, expected, tmp_path):
    qstat = tmp_path / "qstat"
    qstat.write_text(f"#!/bin/sh\ncat <<'ANSWER'\n{answer}\nANSWER\nexit {status}\n")
    qstat.chmod(0o755)
    command = Path(__file__).parents[2] / "profiles/cluster-generic/status"
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(
        [command, "7"], env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout == f"{expected}\n"

"""All devices (here, units of the resource ``gpu``) are used, and the longest jobs start first."""

import json
import subprocess
import sys

import pytest

from tests.projects import new_project
from tests.studies import tiny_study

pytestmark = pytest.mark.long

DEVICES = 4


def test_as_many_jobs_run_as_there_are_devices_and_the_longest_ones_start_first(tmp_path):
    project = new_project(tmp_path / "project")
    study = tiny_study(seeds=1)
    study["training"] |= {"epochs": [1, 20]}
    study["conditions"], study["primary"]["dataset"] = ["epochs"], "epochs=20"
    project.configure(tiny=study)
    project.run("--until", "subsets")  # so that all training jobs can start at the same time
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "models",
        "--cores",
        "8",
        "--configfile",
        "study.yaml",
    ]
    # they request a GPU but use the CPU
    command += ["--resources", f"gpu={DEVICES}", "--set-resources", "train:gpu=1"]
    subprocess.run(command, cwd=project.path, env=project.environment, check=True, timeout=900)

    spans = []  # start, end and condition of each job
    for timing in project.path.glob("results/tiny/timings/train/*/*/*.jsonl"):
        end = timing.stat().st_mtime
        spans.append((end - json.loads(timing.read_text())["s"], end, timing.parts[-3]))
    assert len(spans) == 2 * 3
    spans.sort()
    assert sorted(condition for *_, condition in spans[:DEVICES]) == [
        "epochs=1",
        *["epochs=20"] * 3,
    ]
    running = [sum(begin <= moment < end for begin, end, _ in spans) for moment, *_ in spans]
    assert max(running) == DEVICES

"""Several devices, pretended by the resource ``gpu``: all are kept busy, and the longest trainings go first."""

import json
import os
import subprocess
import sys

import pytest

from tests.projects import new_project
from tests.studies import tiny_study

pytestmark = pytest.mark.long

DEVICES = 4


def test_four_devices_are_kept_busy_and_the_longest_trainings_go_first(tmp_path):
    project = new_project(tmp_path / "project")
    study = tiny_study(seeds=1)
    study["training"] |= {"epochs": [1, 20]}
    study["conditions"], study["primary"]["dataset"] = ["epochs"], "epochs=20"
    project.configure(tiny=study)
    project.run("--until", "subsets")  # so that all trainings can begin at the same time
    command = ["models", "--cores", "8", "--resources", f"gpu={DEVICES}", "--configfile", "study.yaml"]
    command += ["--set-resources", "train:gpu=1"]  # trainings on the CPU, which ask for a GPU
    environment = os.environ | {"PYTHONPATH": str(project.path / "src"), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "snakemake", *command], cwd=project.path, env=environment, check=True, timeout=900)

    spans = []  # of each job: begin, end, condition
    for timing in project.path.glob("results/tiny/timings/train/*/*/*.jsonl"):
        end = timing.stat().st_mtime
        spans.append((end - json.loads(timing.read_text())["s"], end, timing.parts[-3]))
    assert len(spans) == 2 * 3
    spans.sort()
    assert sorted(condition for *_, condition in spans[:DEVICES]) == ["epochs=1", *["epochs=20"] * 3]
    slack = 0.3  # between a job's end and the next one's begin the clocks of both are not exact
    moments = [begin + slack for begin, *_ in spans]
    at_once = [sum(begin + slack <= moment < end - slack for begin, end, _ in spans) for moment in moments]
    assert max(at_once) == DEVICES
    # Until the last one began, devices stood idle only while a job started.
    first, last = spans[0][0], spans[-1][0]
    used = sum(min(end, last) - begin for begin, end, _ in spans)
    assert used > 0.7 * DEVICES * (last - first)

"""All devices (here, units of the resource ``gpu``) are kept busy, and the longest jobs start
first.
"""

import json
import subprocess
import sys

import pytest

from tests.projects import new_project
from tests.studies import tiny_study

pytestmark = pytest.mark.long

DEVICES = 4


def test_four_devices_are_kept_busy_and_the_longest_jobs_start_first(tmp_path):
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
    slack = 0.3  # seconds; the recorded times are not exact
    moments = [begin + slack for begin, *_ in spans]
    running = [
        sum(begin + slack <= moment < end - slack for begin, end, _ in spans) for moment in moments
    ]
    assert max(running) == DEVICES
    # Until the last job started, devices were idle only while a job was starting.
    first, last = spans[0][0], spans[-1][0]
    used = sum(min(end, last) - begin for begin, end, _ in spans)
    assert used > 0.7 * DEVICES * (last - first)

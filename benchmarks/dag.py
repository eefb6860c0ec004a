"""Measure how long Snakemake takes to plan studies with many jobs, and where the time goes: a dry
run of the real Snakefile.

python benchmarks/dag.py --jobs 1000 10000
python benchmarks/dag.py --jobs 10000 --profile
"""

import argparse
import contextlib
import cProfile
import io
import os
import pstats
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
OBJECTIVES = {
    "CL": {"name": "cl"},
    "DCL-low": {"name": "dcl", "class_probability": "low"},
    "DCL-high": {"name": "dcl", "class_probability": "high"},
    "DCL-true": {"name": "dcl", "class_probability": "true"},
    "Oracle": {"name": "oracle"},
}
JOBS_A_SEED = 1 + 2 * len(OBJECTIVES)  # subsets; training and evaluation of each objective


def study(jobs: int) -> dict:
    """Return a study of the digits with about this many jobs, with one seed per job."""
    return {
        "title": "Many jobs",
        "dataset": {
            "source": "digits",
            "rare_classes": [5, 6, 7, 8, 9],
            "fraction": 0.25,
            "test": 0.25,
        },
        "encoder": {"name": "small_resnet", "width": 4},
        "augmentation": {"name": "digits"},
        "training": {"epochs": 1, "batch_size": 64, "device": "cpu", "seeds_per_job": 1},
        "objectives": OBJECTIVES,
        "seeds": max(1, jobs // JOBS_A_SEED),
        "primary": {
            "task": "knn",
            "labels": "all",
            "treatment": "DCL-true",
            "baseline": "CL",
            "oracle": "Oracle",
        },
    }


def command(folder: Path) -> list[str]:
    """Return Snakemake's arguments for a dry run in a folder."""
    places = {
        "--snakefile": ROOT / "Snakefile",
        "--directory": folder,
        "--configfile": folder / "study.yaml",
    }
    return [*(str(part) for place in places.items() for part in place), "--dry-run", "--cores", "2"]


def measured(jobs: int, limit: int) -> str:
    """Time a dry run, and return the number of planned jobs, the wall time and the CPU time as
    text.

    Args:
        jobs: approximate number of jobs.
        limit: maximum CPU time in seconds.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "study.yaml").write_text(yaml.safe_dump({"many": study(jobs)}))
        began, before = time.perf_counter(), os.times()
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", *command(folder), "--quiet", "rules"],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
        )
    after, text = os.times(), done.stdout + done.stderr
    if done.returncode < 0:
        return f"stopped after {limit} s of CPU time"
    if done.returncode:
        sys.exit(text)
    planned = re.search(r"^total +(\d+)$", text, flags=re.MULTILINE)
    processor = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return (
        f"{planned[1]} planned in {time.perf_counter() - began:.1f} s, {processor:.1f} s of CPU"
        " time"
    )


def profiled(jobs: int) -> None:
    """Profile a dry run, and print the functions that take the most time, with and without the
    functions that they call.
    """
    from snakemake.cli import main

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "study.yaml").write_text(yaml.safe_dump({"many": study(jobs)}))
        profile = cProfile.Profile()
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            profile.runcall(main, [*command(folder), "--quiet", "all"])
        os.chdir(ROOT)
        for order in ("cumulative", "tottime"):
            pstats.Stats(profile).sort_stats(order).print_stats(60 if order == "cumulative" else 25)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument(
        "--limit", type=int, default=600, help="maximum CPU time of a dry run, in seconds"
    )
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    for jobs in arguments.jobs:
        if arguments.profile:
            profiled(jobs)
        else:
            print(f"{jobs} jobs asked for: {measured(jobs, arguments.limit)}", flush=True)


if __name__ == "__main__":
    main()

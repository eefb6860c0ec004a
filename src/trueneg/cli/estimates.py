"""How long missing runs would take, from the pace of runs of the same kind."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from trueneg.cli.pace import Paces, samples_of, updates_of
from trueneg.cli.planned_data import PlannedRun
from trueneg.config.runs import features_key, frozen_towers
from trueneg.legible import counted, duration

# Processor seconds to start a job: about 3 for its Snakemake process, and about 4 for imports, to
# read the data and to write results (3.4 to 4.4 for jobs that only split the data, without
# PyTorch; AMD EPYC).
START = 7.0
EVALUATED = 5e-4  # seconds to evaluate a run, per training sample
OTHERS = 25.0  # seconds to read the data, compare, draw figures and write the page
UNMEASURED = "no run of their kind finished here; `trueneg check --time` measures updates"
NO_DATA = "their data do not exist yet"


def estimated_time(
    missing: Sequence[Sequence[PlannedRun]], paces: Paces, by_sample: bool = False
) -> tuple[str, float]:
    """Estimate the time to train and evaluate missing runs.

    Args:
        missing: runs to train, for each job.
        paces: the paces of runs.
        by_sample: whether a third job measures the runs on each test sample.

    Returns:
        A sentence, and the seconds of one process on this machine's processor (NaN: unknown, or on
            another device).
    """
    runs = [run for job in missing for run in job]
    seconds: defaultdict[str, float] = defaultdict(float)  # by origin of the pace
    unknown: defaultdict[str, int] = defaultdict(int)  # by reason
    devices = set()
    for run, data in runs:
        training = run.settings["training"]
        if not (training["updates"] or data.samples(training)):
            unknown[NO_DATA] += 1
        elif updates := updates_of(run.settings, data.samples(training)):
            if pace := paces.of(run, data):
                seconds[f"{pace.origin} on {pace.device}"] += pace.seconds * updates
                devices.add(pace.device)
            else:
                unknown[UNMEASURED] += 1
    parts = _durations(seconds, unknown)
    evaluations = 1 + by_sample
    others = (1 + evaluations) * len(missing) * START
    others += evaluations * EVALUATED * sum(data.images for _, data in runs)
    sentence = (
        f"{counted(len(runs), 'run')} to train in {counted(len(missing), 'job')}:"
        f" {'; '.join(parts) or 'seconds'}; starting these and {'twice ' * by_sample}as many"
        " evaluation jobs, and"
        f" evaluating, about {duration(others)}."
    )
    is_known = not unknown and devices <= {"cpu"}
    return sentence, sum(seconds.values()) + others if is_known else math.nan


def _durations(seconds: Mapping[str, float], unknown: Mapping[str, int]) -> list[str]:
    """Say how long runs take with one process, and of how many this is unknown."""
    parts = [f"{count:,} of unknown duration ({reason})" for reason, count in unknown.items()]
    if seconds:
        origins = " and ".join(seconds)
        parts.insert(
            0, f"about {duration(sum(seconds.values()))} with one process (from {origins})"
        )
    return parts


def towers_to_compute(
    runs: Sequence[PlannedRun], results: Path, paces: Paces
) -> tuple[list[str], float]:
    """List the frozen towers whose vectors are missing, which are computed once for all runs.

    Args:
        runs: runs to train.
        results: the results folder.
        paces: the paces of towers.

    Returns:
        A sentence, or none, and the seconds of one process (NaN: unknown).
    """
    absent = {}
    seconds = 0.0
    for run, data in runs:
        for made in frozen_towers(run.settings).values():
            name = features_key(made)
            is_stored = (results / f"features/{name}.npz").is_file()
            if made["tower"]["name"] == "vectors" or is_stored or name in absent:
                continue
            count = samples_of(made, data)
            absent[name] = f"{count:,} {made['samples']}" if count else made["samples"]
            versions = 1 + (made["tower"].get("views") or 0)
            pace, _ = paces.towers.get(name, (math.nan, 0))
            seconds += START + (count or math.nan) * versions * pace
    if not absent:
        return [], 0.0
    about = "of unknown duration" if math.isnan(seconds) else f"about {duration(seconds)}"
    return [
        f"{counted(len(absent), 'frozen tower')} to compute once, of"
        f" {' and '.join(absent.values())}: {about}"
    ], seconds

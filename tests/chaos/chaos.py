"""Kill random processes of a small real pipeline at random moments, restart it until it is
finished, and compare the results.

First, a study on images, one on texts and one on image–text pairs run without interruption. Then,
in another folder, SIGKILL is sent at random times to a random process of the pipeline: Snakemake, a
job, or a process that a job has started. Whenever Snakemake has ended, the folder is unlocked and
the same command is started again. If the pipeline finishes before the last kill, its results are
removed and it starts from the beginning. At the end, everything that the two pipelines wrote is
compared.

    python -m tests.chaos.chaos --kills 50 --seed 0 --report chaos.json

With ``--minutes``, the studies are two that share runs, each in a Snakemake process of its own, in
one folder; processes of both are killed for as long.
"""

import argparse
import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
from safetensors import safe_open

from tests.projects import Project, new_project
from tests.studies import tiny_study, tiny_words, tiny_world
from tests.training.interrupted import EVERY_UPDATE
from trueneg.io.seals import FOLDER, damage, sealed_files

# option of prctl(2): this process adopts the children of killed processes, so that it can wait for
# them
SUBREAPER = 36
PATIENCE = 60.0  # seconds that jobs may outlive a killed Snakemake
LONGEST_JOB, LONGEST_RUN = 300.0, 1500.0  # seconds on a busy machine
# keys of records that depend on time; of a shared run, so does the study that trained it first
TIMES = {"seconds", "cpu_seconds", "gpu_seconds", "attempts", "spent", "finished", "study"}
TIMED_COLUMNS = re.compile(r"seconds|per_second")
# names of files that were being written when their process was killed
TEMPORARY = re.compile(r"^\..*\.[0-9]+$")


def small_studies() -> dict[str, Any]:
    """Return three tiny studies with two objectives and one seed each, which write a checkpoint
    after every update.
    """
    often = {"checkpoint_minutes": EVERY_UPDATE}
    images, words, world = (
        tiny_study(seeds=1),
        tiny_words(processes=2),
        tiny_world(seeds=1, figures={}),
    )
    words["language_models"]["BERT"] |= often
    for study, removed in ((images, "DCL-true"), (world, "DCL-LM")):
        study["training"] |= often | {"epochs": 3}
        del study["objectives"][removed]
        study["primary"]["treatment"] = "Oracle"
    return {"tiny": images, "words": words, "world": world}


def studies_that_share_runs() -> dict[str, Any]:
    """Return two tiny studies that train CL and Oracle with the same seeds; one also trains DCL."""
    study = tiny_study(seeds=2)
    study["training"] |= {"checkpoint_minutes": EVERY_UPDATE, "epochs": 2}
    objectives = study["objectives"]
    shared = {"CL": objectives["CL"], "Oracle": objectives["Oracle"]}
    twin = shared | {"DCL": {"name": "dcl", "class_probability": 0.1}}
    primary = {"primary": study["primary"] | {"treatment": "Oracle"}}
    return {
        "one": study | primary | {"objectives": shared},
        "twin": study | primary | {"objectives": twin},
    }


@dataclass
class Tally:
    """What happened to the pipeline."""

    kills: Counter = field(default_factory=Counter)  # by script and kind of process
    restarts: int = 0
    repetitions: int = 0  # how often the pipeline finished early and started from the beginning
    # processes that outlived Snakemake for longer than PATIENCE
    orphans: list[str] = field(default_factory=list)


def start(project: Project, *arguments: str) -> psutil.Popen:
    """Start Snakemake; its output is appended to a file."""
    with (project.path / "output.txt").open("a") as output:
        return project.start(*arguments, stdout=output, popen=psutil.Popen)


def unlock(project: Project) -> None:
    """Unlock the folder, as a user would after Snakemake was killed."""
    if any((project.path / ".snakemake/locks").glob("*")):
        project.run("--unlock")


def run_with_kills(project: Project, kills: int, draw: random.Random) -> Tally:
    """Run the pipeline to the end, with the given number of kills, from the beginning again as
    often as necessary.
    """
    tally = Tally()
    unlock(project)
    while True:
        snakemake, before = start(project), tally.kills.total()
        while tally.kills.total() < kills and kill_one(snakemake, draw, tally):
            pass
        if snakemake.wait(LONGEST_RUN):  # if only a job was killed, Snakemake finishes the others
            require_kill(project, tally, before)
            await_orphans(project, tally)
            tally.restarts += 1
            unlock(project)
        elif tally.kills.total() < kills:
            tally.repetitions += 1
            shutil.rmtree(project.path / "results")
        else:
            return tally


def run_together_with_kills(project: Project, seconds: float, draw: random.Random) -> Tally:
    """Run both studies to the end, each in its own Snakemake process, with kills in both for the
    given time; from the beginning again as often as they finish early.
    """
    tally = Tally()
    deadline = time.monotonic() + seconds
    while True:
        project.run("--until", "source")  # two processes cannot write one file
        unfinished = set(studies_that_share_runs())
        running: dict[str, psutil.Popen] = {}
        kills_before: dict[str, int] = {}
        is_locked = False
        while unfinished:
            if is_locked and not running:  # a folder is not unlocked while Snakemake runs in it
                await_orphans(project, tally)
                unlock(project)
                is_locked = False
            if not is_locked:
                new = sorted(unfinished - set(running))
                running |= {name: start(project, *outputs_of(name)) for name in new}
                kills_before |= dict.fromkeys(new, tally.kills.total())
            chosen = running[draw.choice(sorted(running))]
            if time.monotonic() < deadline:
                kill_one(chosen, draw, tally)
            else:
                chosen.wait(LONGEST_RUN)
            for name in [name for name in running if running[name].poll() is not None]:
                code = running.pop(name).returncode
                if code == 0:
                    unfinished.remove(name)
                    continue
                require_kill(project, tally, kills_before[name])
                is_locked |= code == -signal.SIGKILL
                tally.restarts += 1
        if time.monotonic() > deadline:
            return tally
        tally.repetitions += 1
        shutil.rmtree(project.path / "results")


def require_kill(project: Project, tally: Tally, before: int) -> None:
    """Raise AssertionError if nothing was killed since there were `before` kills."""
    if tally.kills.total() == before:
        output = (project.path / "output.txt").read_text()
        raise AssertionError(f"failed without a kill: {output[-5000:]}")


def outputs_of(study: str) -> list[str]:
    """Return files that need all runs of one of the studies that share some."""
    return [f"results/{study}/artefacts/rows.parquet", f"results/{study}/artefacts/curves.parquet"]


def kill_one(snakemake: psutil.Popen, draw: random.Random, tally: Tally) -> bool:
    """Kill a process of the pipeline at a random moment; return False if Snakemake has ended or was
    killed.
    """
    started, count = jobs_of(snakemake), draw.choice([1, 1, 2])
    wanted = len(started) + count
    # One kill in eight may come before any job has started.
    planning = time.monotonic() + (draw.uniform(0, 40) if draw.random() < 1 / 8 else LONGEST_JOB)
    while len(started) < wanted and (started or time.monotonic() < planning):
        if snakemake.poll() is not None:
            return False
        started |= jobs_of(snakemake)
        time.sleep(0.02)
    # Jobs take seconds: some are killed while they import, some while they write.
    time.sleep(draw.choice([draw.uniform(0, 0.5), draw.uniform(0, 5), draw.uniform(0, 30)]))
    processes = processes_of(snakemake)
    if not processes:
        return False
    # A quarter of the kills hit Snakemake; the others are shared equally among the kinds of
    # processes.
    by_kind: dict[str, list[psutil.Process]] = {}
    for process in processes[1:]:
        by_kind.setdefault(kind_of(process), []).append(process)
    is_snakemake = draw.random() < 0.25 or not by_kind
    victim = snakemake if is_snakemake else draw.choice(by_kind[draw.choice(sorted(by_kind))])
    kind, running = (
        "Snakemake" if is_snakemake else kind_of(victim),
        "+".join(sorted({*map(script_of, processes)} - {""})),
    )
    script = running or "planning" if is_snakemake else script_of(victim)
    with contextlib.suppress(psutil.NoSuchProcess):
        victim.kill()
        tally.kills[script, kind] += 1
        print(f"{tally.kills.total():4} {kind:10} of {script}, running: {running}", flush=True)
    return not is_snakemake


def processes_of(root: psutil.Process) -> list[psutil.Process]:
    """Return the process and all its descendants; empty if it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process for process in [root, *root.children(recursive=True)] if is_alive(process)]
    return []


def jobs_of(snakemake: psutil.Process) -> set[int]:
    """Return the ids of the processes of jobs."""
    return {process.pid for process in processes_of(snakemake) if script_of(process)}


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def script_of(process: psutil.Process) -> str:
    """Return the name of the job's script, of the process or of the one that started it; empty if
    there is none.
    """
    with contextlib.suppress(psutil.Error):
        for candidate in [process, *process.parents()]:
            if match := re.search(
                r"\.snakemake/scripts/tmp\w+\.(\w+)\.py", " ".join(candidate.cmdline())
            ):
                return match[1]
    return ""


def kind_of(process: psutil.Process) -> str:
    """Return whether a process is a shell, a process that a job has started, or the job itself."""
    with contextlib.suppress(psutil.Error):
        command = process.cmdline()
        if re.search("spawn_main|resource_tracker", " ".join(command)):
            return "spawned"
        if command and re.search("(^|/)(ba|da)?sh$", command[0]):
            return "shell"
    return "job"


def await_orphans(project: Project, tally: Tally) -> None:
    """Wait until all processes of a killed Snakemake have ended, and record those that have not."""
    deadline = time.monotonic() + PATIENCE
    while orphans := [
        process
        for process in psutil.Process().children(recursive=True)
        if works_in(process, project.path)
    ]:
        if time.monotonic() > deadline:
            tally.orphans += [" ".join(process.cmdline())[-200:] for process in orphans]
            break
        time.sleep(0.05)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def works_in(process: psutil.Process, folder: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return is_alive(process) and process.cwd() == str(folder)
    return False


def unreadable(results: Path) -> list[str]:
    """Return the files that differ from their seals or cannot be read completely, each with the
    error.
    """
    sealed = [path for path in sealed_files(results, "") if path.is_file()]
    errors = [f"{path}: {problem}" for path in sealed if (problem := damage(results, path))]
    for path in results.rglob("*.*"):
        try:
            if TEMPORARY.search(path.name) or FOLDER in path.parts:
                continue
            if path.suffix == ".parquet":
                pq.read_table(path)
            elif path.suffix == ".json":
                json.loads(path.read_text())
            elif path.suffix == ".jsonl":
                [json.loads(line) for line in path.read_text().splitlines()]
            elif path.suffix == ".npz":
                with np.load(path, allow_pickle=False) as archive:
                    [archive[name] for name in archive.files]
            elif path.suffix == ".safetensors":
                with safe_open(path, framework="np") as tensors:
                    [tensors.get_tensor(name) for name in tensors.keys()]  # noqa: SIM118 (not a mapping)
        except Exception as error:
            errors.append(f"{path}: {error}")
    return errors


def differences(uninterrupted: Path, killed: Path) -> list[str]:
    """Return the differences between two results folders, except for times."""
    both = [
        {
            str(path.relative_to(results))
            for path in results.rglob("*")
            if path.is_file() and is_compared(path.relative_to(results))
        }
        for results in (uninterrupted, killed)
    ]
    different = [f"only one has {name}" for name in sorted(both[0] ^ both[1])]
    for name in sorted(both[0] & both[1]):
        paths = (uninterrupted / name, killed / name)
        if name.endswith(".parquet"):
            try:
                pd.testing.assert_frame_equal(
                    *(without_times(pd.read_parquet(path)) for path in paths)
                )
            except AssertionError as error:
                different.append(f"{name}: {str(error).splitlines()[0]}")
        elif name.endswith(".json"):
            first, second = (without_times(json.loads(path.read_text())) for path in paths)
            different += [f"{name}: different content"] if first != second else []
        elif name.endswith(".csv"):
            first, second = (without_times(pd.read_csv(path)) for path in paths)
            different += [] if first.equals(second) else [f"{name}: different values"]
        elif paths[0].read_bytes() != paths[1].read_bytes():
            different.append(f"{name}: different bytes")
    return different


def is_compared(path: Path) -> bool:
    """Return whether a file must be equal: a model, record, row, artefact, table or manifest."""
    if path.name in ("lock", "index.html", "study.yaml") or path.name.startswith(
        (".", "resources")
    ):
        return False
    # Parts of a cache depend on when they were written; records of drawings hold checksums of rows,
    # some of which hold times.
    folders = {FOLDER, "cache", "drawings", "logs", "timings", "benchmarks"}
    if path.name == "methods.tex":  # its cost is a time; the values are those of methods.csv
        return False
    return not folders & set(path.parts) and path.suffix not in (
        ".log",
        ".jsonl",
        ".pdf",
        ".svg",
        ".png",
    )


def without_times(content: Any) -> Any:
    """Return a record without times and numbers of attempts, or a table without columns and metrics
    of time.
    """
    if isinstance(content, pd.DataFrame):
        table = content[[name for name in content.columns if not TIMED_COLUMNS.search(str(name))]]
        if "metric" in table:
            table = table[~table["metric"].astype(str).str.contains(TIMED_COLUMNS)]
        return table.reset_index(drop=True)
    if isinstance(content, dict):
        return {key: without_times(value) for key, value in content.items() if key not in TIMES}
    return [without_times(value) for value in content] if isinstance(content, list) else content


def new(path: Path, studies: Mapping[str, Any]) -> Project:
    """Return a project with the studies; one that exists is continued."""
    project = Project(path) if path.exists() else new_project(path)
    project.configure(**studies)
    return project


def chaos(folder: Path, kills: int, minutes: float | None, seed: int) -> dict[str, Any]:
    """Run both pipelines and compare them; everything that went wrong is listed under ``lost``."""
    studies = small_studies() if minutes is None else studies_that_share_runs()
    uninterrupted, killed = (new(folder / name, studies) for name in ("uninterrupted", "killed"))
    targets = [] if minutes is None else [path for each in studies for path in outputs_of(each)]
    if start(uninterrupted, *targets).wait():
        raise AssertionError((uninterrupted.path / "output.txt").read_text()[-5000:])
    draw = random.Random(seed)
    if minutes is None:
        tally = run_with_kills(killed, kills, draw)
    else:
        tally = run_together_with_kills(killed, 60 * minutes, draw)
    results = killed.path / "results"
    locks = [str(path) for path in (killed.path / ".snakemake/locks").glob("*")]
    return {
        "kills": tally.kills.total(),
        "by script and process": {
            ", ".join(key): count for key, count in sorted(tally.kills.items())
        },
        "restarts": tally.restarts,
        "repetitions": tally.repetitions,
        "lost": differences(uninterrupted.path / "results", results)
        + unreadable(results)
        + locks
        + tally.orphans,
    }


def main() -> int:
    """Print the report; return 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--minutes", type=float, help="kill for so long in two that share runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="working folder; by default, a temporary one")
    parser.add_argument("--report", type=Path, help="JSON file for the report")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        report = chaos(folder, arguments.kills, arguments.minutes, arguments.seed)
    print(json.dumps(report, indent=2))
    if arguments.report:
        arguments.report.write_text(json.dumps(report, indent=2) + "\n")
    return bool(report["lost"])


if __name__ == "__main__":
    sys.exit(main())

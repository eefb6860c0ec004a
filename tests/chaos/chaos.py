"""Kill random processes of a small real pipeline at random moments, restart it until it is done, and compare.

A study on images, one on texts and one on images with texts run to the end once in peace. Then in another folder: whenever a job
or two have begun, a random time passes, and a random process of the whole tree gets SIGKILL: Snakemake itself, a job, a process
that a job has spawned. When Snakemake has ended, by that or because of the jobs that it lost, comes the user's part: unlock, and
the same command again. When it comes to its end before all kills are spent, its results are removed and it begins anew. Last,
everything that was made is compared.

    python -m tests.chaos.chaos --kills 50 --seed 0 --report chaos.json
"""

import argparse
import contextlib
import ctypes
import json
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
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

SUBREAPER = 36  # of prctl(2): whose parent is killed becomes our child, so that its end and its time are not lost
PATIENCE = 60.0  # seconds that the jobs of a killed Snakemake may take to notice
LONGEST_JOB = 300.0
TIMES = {"seconds", "gpu_seconds", "attempts", "spent", "finished"}  # keys of records
SECONDS_OF = re.compile(r"seconds|per_second|waiting|epoch seconds")  # columns that tell times


def small_studies() -> dict[str, Any]:
    """Three tiny studies with two objectives and one seed each; a checkpoint after every update."""
    often = {"checkpoint_minutes": EVERY_UPDATE}
    images, words, world = tiny_study(seeds=1), tiny_words(processes=2), tiny_world(seeds=1, figures={})
    words["language_models"]["BERT"] |= often
    for study, dropped in ((images, "DCL-true"), (world, "DCL-LM")):
        study["training"] |= often | {"epochs": 3}
        del study["objectives"][dropped]
        study["primary"]["treatment"] = "Oracle"
    return {"tiny": images, "words": words, "world": world}


@dataclass
class Tally:
    """What happened to the pipeline."""

    kills: Counter = field(default_factory=Counter)  # by phase and process
    restarts: int = 0
    rounds: int = 1
    half_written: Counter = field(default_factory=Counter)  # temporary files that kills left, by what was to be written
    orphans: list[str] = field(default_factory=list)  # that outlived their Snakemake for longer than PATIENCE
    slowest_end: float = 0.0  # seconds that jobs outlived their Snakemake


class Pipeline:
    """One project whose Snakemake is started, watched and killed.

    Args:
        project: where it runs.
        cores: of Snakemake.
    """

    def __init__(self, project: Project, cores: int):
        self.project, self.cores = project, cores
        self.output = project.path / "said.txt"

    def start(self) -> psutil.Popen:
        environment = os.environ | {"PYTHONPATH": str(self.project.path / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "snakemake", "--cores", str(self.cores), "--configfile", "study.yaml"]
        with self.output.open("a") as said:
            return psutil.Popen(command, cwd=self.project.path, env=environment, stdout=said, stderr=said)

    def unlock(self) -> None:
        """As a user would, after a Snakemake that was killed."""
        if any((self.project.path / ".snakemake/locks").glob("*")):
            done = self.project.snakemake("--unlock")
            if done.returncode:
                raise AssertionError(done.stdout + done.stderr)


def run_in_peace(pipeline: Pipeline) -> dict[str, float]:
    """Run to the end; returns seconds and processor seconds."""
    began, used = time.monotonic(), _used()
    if pipeline.start().wait():
        raise AssertionError(pipeline.output.read_text()[-5000:])
    return {"seconds": time.monotonic() - began, "processor seconds": _used() - used}


def run_with_kills(pipeline: Pipeline, kills: int, draw: random.Random) -> tuple[Tally, dict[str, float]]:
    """Run to the end with so many kills, from the beginning again as often as it takes."""
    tally, began, used = Tally(), time.monotonic(), _used()
    pipeline.unlock()
    while True:
        snakemake, before = pipeline.start(), tally.kills.total()
        while tally.kills.total() < kills and _killed(snakemake, draw, tally):
            pass
        code = _ended(snakemake)
        if code:
            if tally.kills.total() == before:
                raise AssertionError(f"it failed without a kill: {pipeline.output.read_text()[-5000:]}")
            _await_orphans(pipeline, tally)
            for path in pipeline.project.path.glob("results/**/.*.[0-9]*"):
                tally.half_written[re.sub(r"\.[0-9]+$", "", path.name).lstrip(".")] += 1
            tally.restarts += 1
            pipeline.unlock()
        elif tally.kills.total() < kills:
            tally.rounds += 1
            shutil.rmtree(pipeline.project.path / "results")
        else:
            return tally, {"seconds": time.monotonic() - began, "processor seconds": _used() - used}


def _killed(snakemake: psutil.Popen, draw: random.Random, tally: Tally) -> bool:
    """Wait for a moment, and kill a process of the tree; False if Snakemake comes to its end before that."""
    jobs = _jobs(snakemake)
    begun, wanted = set(jobs), len(jobs) + draw.choice([1, 1, 2])
    # One in eight falls before any job has begun.
    planning = time.monotonic() + (draw.uniform(0, 40) if draw.random() < 1 / 8 else LONGEST_JOB)
    while len(begun) < wanted and (begun or time.monotonic() < planning):
        if snakemake.poll() is not None:
            return False
        begun |= _jobs(snakemake)
        time.sleep(0.02)
    # Jobs take seconds, longer where the machine is busy: some die while they import, some while they write.
    time.sleep(draw.choice([draw.uniform(0, 0.5), draw.uniform(0, 5), draw.uniform(0, 30)]))
    tree = _tree(snakemake)
    if not tree:
        return False
    # Snakemake is one of many processes, and the one whose death matters most; each kind of the others gets its share.
    others: dict[str, list[psutil.Process]] = {}
    for process in tree:
        others.setdefault(_kind(process, snakemake), []).append(process)
    others.pop("Snakemake", None)
    victim = snakemake if draw.random() < 0.25 or not others else draw.choice(others[draw.choice(sorted(others))])
    during = "+".join(sorted({_phase(process) for process in tree} - {"", "Snakemake"})) or "planning"
    phase, kind = _phase(victim), _kind(victim, snakemake)
    with contextlib.suppress(psutil.NoSuchProcess):
        victim.kill()
        tally.kills[during if phase in ("", "Snakemake") else phase, kind] += 1
        print(f"{tally.kills.total():4} {kind:10} of {phase or '?'}, at work: {during}", flush=True)
    return victim.pid != snakemake.pid


def _jobs(snakemake: psutil.Process) -> set[int]:
    return {process.pid for process in _tree(snakemake) if _phase(process) not in ("", "Snakemake")}


def _tree(root: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [one for one in [root, *root.children(recursive=True)] if one.is_running() and _alive(one)]
    return []


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _phase(process: psutil.Process) -> str:
    """The job's script, of the process or of the one that spawned it; "Snakemake"; empty if it cannot be told."""
    with contextlib.suppress(psutil.Error):
        for one in [process, *process.parents()]:
            command = " ".join(one.cmdline())
            if found := re.search(r"\.snakemake/scripts/tmp\w+\.(\w+)\.py", command):
                return found[1]
            if "-m snakemake" in command:
                return "Snakemake"
    return ""


def _kind(process: psutil.Process, snakemake: psutil.Process) -> str:
    if process.pid == snakemake.pid:
        return "Snakemake"
    with contextlib.suppress(psutil.Error):
        command = process.cmdline()
        if re.search("spawn_main|resource_tracker", " ".join(command)):
            return "spawned"
        if command and re.search("(^|/)(ba|da)?sh$", command[0]):
            return "shell"
    return "job"


def _ended(snakemake: psutil.Popen) -> int:
    """Wait for Snakemake; one whose job was killed lets the others finish."""
    try:
        return snakemake.wait(LONGEST_JOB)
    except psutil.TimeoutExpired as error:
        raise AssertionError("Snakemake hangs after a kill") from error


def _await_orphans(pipeline: Pipeline, tally: Tally) -> None:
    """Nothing of a Snakemake that is gone may work on."""
    began = time.monotonic()
    while left := _of_project(pipeline.project):
        if time.monotonic() - began > PATIENCE:
            tally.orphans += [" ".join(one.cmdline())[-200:] for one in left]
            break
        time.sleep(0.05)
    tally.slowest_end = max(tally.slowest_end, time.monotonic() - began)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _of_project(project: Project) -> list[psutil.Process]:
    """Our descendants that work in the project's folder."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.cwd() == str(project.path):
                found.append(process)
    return found


def _used() -> float:
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime


def unreadable(results: Path) -> list[str]:
    """Files under the results that cannot be read to their end."""
    found = []
    for path in results.rglob("*.*"):
        if re.search(r"^\..*\.[0-9]+$", path.name):
            continue  # what a kill left of a file that was being written; nothing looks for such names
        try:
            if path.suffix == ".parquet":
                pq.read_table(path)
            elif path.suffix in (".json", ".jsonl"):
                [json.loads(line) for line in (path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()])]
            elif path.suffix == ".npz":
                with np.load(path, allow_pickle=False) as archive:
                    [archive[name] for name in archive.files]
            elif path.suffix == ".safetensors":
                with safe_open(path, framework="np") as tensors:
                    [tensors.get_tensor(name) for name in tensors.keys()]  # noqa: SIM118 (not a mapping)
        except Exception as error:
            found.append(f"{path}: {error}")
    return found


def differences(peaceful: Path, killed: Path) -> list[str]:
    """What the two results folders do not agree on, times aside."""
    found = []
    listed = [
        {path.relative_to(results).as_posix() for path in results.rglob("*") if _counts(path.relative_to(results))}
        for results in (peaceful, killed)
    ]
    found += [f"only one has {path}" for path in sorted(listed[0] ^ listed[1])]
    for name in sorted(listed[0] & listed[1]):
        first, second = peaceful / name, killed / name
        if first.is_dir():
            continue
        if first.suffix == ".parquet":
            tables = [_without_times(pd.read_parquet(path)) for path in (first, second)]
            try:
                pd.testing.assert_frame_equal(*tables)
            except AssertionError as error:
                found.append(f"{name}: {str(error).splitlines()[0]}")
        elif first.suffix == ".json":
            if len({json.dumps(_untimed(json.loads(path.read_text()))) for path in (first, second)}) > 1:
                found.append(f"{name}: other content")
        elif first.read_bytes() != second.read_bytes():
            found.append(f"{name}: other bytes")
    return found


def _untimed(content: Any) -> Any:
    """A record without what tells when and how long, and in how many attempts."""
    if isinstance(content, dict):
        return {key: _untimed(value) for key, value in content.items() if key not in TIMES}
    return [_untimed(value) for value in content] if isinstance(content, list) else content


def _without_times(table: pd.DataFrame) -> pd.DataFrame:
    table = table[[name for name in table.columns if not SECONDS_OF.search(str(name))]]
    if "metric" in table:  # tidy rows may tell times too
        table = table[~table["metric"].astype(str).str.contains(SECONDS_OF)]
    return table.reset_index(drop=True)


def _counts(path: Path) -> bool:
    """Results that must be equal: models, records, rows, artefacts, tables, manifests; not what tells times alone."""
    told = ("lock", "index.html", "study.yaml")
    if path.name in told or path.suffix in (".log", ".jsonl", ".pdf", ".svg", ".png") or path.name.startswith("."):
        return False
    # Caches are cut by the moments at which they were written; drawings keep checksums of rows, some of which hold times.
    timed = {"cache", "drawings", "logs", "timings", "benchmarks"}
    return not (timed & set(path.parts)) and not path.name.startswith("resources")


def main() -> int:
    """Run, print the figures; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to work; a temporary one if not given, removed at the end")
    parser.add_argument("--peaceful", type=Path, help="project where the same ran in peace before, which is then spared")
    parser.add_argument("--report", type=Path, help="JSON file for the figures")
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    with contextlib.ExitStack() as held:
        folder = given.folder or Path(held.enter_context(tempfile.TemporaryDirectory()))
        found = chaos(folder, given.kills, given.seed, given.cores, given.peaceful)
    print(json.dumps(found, indent=2))
    if given.report:
        given.report.write_text(json.dumps(found, indent=2) + "\n")
    return bool(found["lost"])


def chaos(folder: Path, kills: int, seed: int, cores: int, peaceful: Path | None = None) -> dict[str, Any]:
    """Both runs and their comparison, as plain figures; ``lost`` holds everything that went wrong."""
    if peaceful is None:
        peaceful = folder / "peaceful"
        undisturbed = run_in_peace(_new(peaceful, cores))
        (peaceful / "took.json").write_text(json.dumps(undisturbed))
    undisturbed = json.loads((peaceful / "took.json").read_text())
    print("in peace:", undisturbed, flush=True)
    pipeline = _new(folder / "killed", cores)
    tally, disturbed = run_with_kills(pipeline, kills, random.Random(seed))
    first, second = peaceful / "results", pipeline.project.path / "results"
    locks = [str(path) for path in (pipeline.project.path / ".snakemake/locks").glob("*")]
    lost = differences(first, second) + unreadable(second) + locks + tally.orphans
    return {
        "kills": tally.kills.total(),
        "by phase and process": {f"{phase}, {kind}": count for (phase, kind), count in sorted(tally.kills.items())},
        "by process": dict(Counter(kind for phase, kind in tally.kills.elements())),
        "by phase": dict(Counter(phase for phase, kind in tally.kills.elements())),
        "restarts": tally.restarts,
        "rounds": tally.rounds,
        "half-written files that kills left": dict(tally.half_written),
        "seconds that jobs outlived their Snakemake, at most": round(tally.slowest_end, 2),
        "in peace": undisturbed,
        "with kills": disturbed,
        "seconds lost a kill": _lost(undisturbed, disturbed, tally, "seconds"),
        "processor seconds lost a kill": _lost(undisturbed, disturbed, tally, "processor seconds"),
        "lost": lost,
    }


def _new(path: Path, cores: int) -> Pipeline:
    """In a folder where it was ended itself, it goes on."""
    pipeline = Pipeline(Project(path) if path.exists() else new_project(path), cores)
    pipeline.project.configure(**small_studies())
    return pipeline


def _lost(peaceful: dict[str, float], disturbed: dict[str, float], tally: Tally, what: str) -> float:
    return round((disturbed[what] - tally.rounds * peaceful[what]) / max(tally.kills.total(), 1), 2)


if __name__ == "__main__":
    sys.exit(main())

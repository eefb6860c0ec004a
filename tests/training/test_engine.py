"""Training jobs: ownership of runs, records of attempts, and the run table."""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.training.interrupted import CONTEXT, EVERY_UPDATE, new_job
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import encoded_runs
from trueneg.io.seals import seal
from trueneg.report.run_table import run_table
from trueneg.specs import stages
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.training import engine
from trueneg.training.engine import train_runs

LONG = {"epochs": 10_000, "checkpoint_minutes": EVERY_UPDATE}


def wait_until(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.01)


@pytest.fixture
def at_work(tmp_path):
    """A long training job that has written its first checkpoint."""
    job = new_job(tmp_path, **LONG)
    process = job.start()
    wait_until(lambda: list(job.store.path.glob(f"*/{RunStore.CHECKPOINT}")))
    yield job, process
    process.kill()
    process.join()


def test_a_second_process_waits_and_then_reports_the_owner(at_work, monkeypatch, caplog):
    job, process = at_work
    monkeypatch.setattr(engine, "PATIENCE", 1.0)
    caplog.set_level(logging.INFO)
    with pytest.raises(
        UserError, match=f"process {process.pid} on .*[Ww]ait until it ends, or stop it"
    ):
        train_runs(**job.arguments())
    assert "waiting up to 1 s" in caplog.text
    assert process.is_alive()
    assert not (job.folder / "manifest.json").exists()


def test_a_waiting_process_takes_over_when_the_owner_ends(tmp_path):
    store = RunStore(tmp_path)
    holder = CONTEXT.Process(target=_hold, args=(tmp_path, 1.0))
    holder.start()
    wait_until(lambda: store.owner("abc"))
    with store.owned("abc", patience=300):
        assert store.owner("abc").startswith(f"{os.getpid()} on ")
    assert store.owner("abc") is None
    holder.join()


def _hold(path, seconds):
    with RunStore(path).owned("abc"):
        time.sleep(seconds)


def test_two_jobs_for_one_run_train_it_once(tmp_path):
    """One job waits for the other and reuses its run."""
    job = new_job(tmp_path, checkpoint_minutes=5)
    processes = [job.start(), job.start()]
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(job.record["attempts"]) == 1


def test_a_file_system_that_grants_every_lock_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with (
        pytest.raises(UserError, match="file system grants the same lock twice"),
        RunStore(tmp_path).owned("abc"),
    ):
        pass


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(UserError, match=r"file system refuses locks \(Operation not supported\)"),
        RunStore(tmp_path).owned("abc"),
    ):
        pass


def test_the_record_includes_the_time_of_every_attempt(tmp_path):
    job = new_job(tmp_path)
    for _ in range(2):
        job.killed_at(RunStore.CURVES, "half written")
    began = time.monotonic()
    record = job.finish().record
    assert len(record["attempts"]) == 3
    seconds = [attempt["seconds"] for attempt in record["attempts"]]
    assert min(seconds) > 0
    assert record["seconds"] == pytest.approx(sum(seconds))
    assert seconds[-1] < time.monotonic() - began
    processor = [attempt["cpu_seconds"] for attempt in record["attempts"]]
    assert min(processor) > 0
    assert record["cpu_seconds"] == pytest.approx(sum(processor))
    assert record["gpu_seconds"] == 0


def test_a_finished_run_that_recorded_other_settings_is_refused(tmp_path):
    job = new_job(tmp_path, checkpoint_minutes=5).finish()
    record = job.record
    record["settings"]["training"]["learning_rate"] = 3e-4
    (job.run / RunStore.RECORD).write_text(json.dumps(record))
    seal(job.store.path.parent, [job.run / RunStore.RECORD])
    with pytest.raises(
        UserError, match=rf"{job.run.name}/run\.json.*training\.learning_rate.*0\.0003.*0\.001"
    ):
        train_runs(**job.arguments())


def test_a_run_started_with_other_versions_restarts_and_counts_both_attempts(
    tmp_path, monkeypatch, caplog
):
    job = new_job(tmp_path)
    job.killed_at(RunStore.CURVES, "half written")
    monkeypatch.setitem(stages.VERSIONS, "training/images", 2)
    train_runs(**job.arguments())
    assert "versions of the code; moved to checkpoint.outdated.safetensors" in caplog.text
    assert job.record["code"]["versions"]["training/images"] == 2
    first, second = job.record["attempts"]
    assert second["digest"] != first["digest"]


def test_damaged_weights_are_refused_and_the_printed_remedy_works(tmp_path):
    job = new_job(tmp_path, checkpoint_minutes=5).finish()
    intact = job.model
    weights = load_file(job.run / RunStore.MODEL)
    # a valid file
    save_file({name: value * 0 for name, value in weights.items()}, job.run / RunStore.MODEL)
    manifest = Path(job.arguments()["manifest"])
    for _ in range(2):  # listing the run again does not accept the damage
        with pytest.raises(
            UserError,
            match=(
                rf"{job.run.name}/model\.safetensors is damaged.*Remove the folder .*{job.run.name}"
            ),
        ):
            train_runs(**job.arguments())
        with pytest.raises(UserError, match="damaged"):
            read_manifest(manifest, job.store)
    shutil.rmtree(job.run)
    train_runs(**job.arguments())
    assert job.model == intact


def test_a_damaged_curve_or_record_of_a_finished_run_is_noticed(tmp_path):
    job = new_job(tmp_path, checkpoint_minutes=5).finish()
    checksum = job.store.checksum(job.run.name)
    for name in (RunStore.CURVES, RunStore.RECORD):
        content = (job.run / name).read_bytes()
        for damaged in (content + b" ", None):
            (job.run / name).unlink() if damaged is None else (job.run / name).write_bytes(damaged)
            with pytest.raises(UserError, match=rf"{name} (was damaged|is missing)"):
                job.store.checksum(job.run.name)
        (job.run / name).write_bytes(content)
    assert job.store.checksum(job.run.name) == checksum


def test_files_left_by_a_kill_after_the_record_are_removed(tmp_path):
    job = new_job(tmp_path, checkpoint_minutes=5).finish()
    before = job.model, (job.run / RunStore.RECORD).read_bytes()
    (job.run / RunStore.CHECKPOINT).write_bytes(b"left behind")
    (job.run / RunStore.PROGRESS).write_text("{}")
    (job.run / ".model.safetensors.123").write_bytes(b"half")
    train_runs(**job.arguments())
    assert (job.model, (job.run / RunStore.RECORD).read_bytes()) == before
    assert {path.name for path in job.run.iterdir()} == {
        RunStore.LOCK,
        RunStore.MODEL,
        RunStore.CURVES,
        RunStore.RECORD,
    }


def test_the_run_table_shows_owned_interrupted_finished_and_stale_runs(
    at_work, tmp_path_factory, monkeypatch
):
    job, process = at_work
    (row,) = run_table(job.folder).to_dict("records")
    assert row["state"].startswith(f"owned by {process.pid} on ")
    wait_until(lambda: job.store.progress(job.run.name)["epoch"] >= 2)
    process.kill()
    process.join()
    (row,) = run_table(job.folder).to_dict("records")
    assert row["state"] == "interrupted"
    reached, epochs = map(int, row["epoch"].split("/"))
    assert 2 <= reached < epochs == 10_000
    assert (row["dataset"], row["objective"], row["seed"]) == ("digits", "DCL-true", 0)
    assert row["seconds"] > 0
    other = new_job(tmp_path_factory.mktemp("finished"), checkpoint_minutes=5).finish()
    shutil.copytree(other.run, job.store.path / other.run.name)
    begun = row["run"]
    assert run_table(job.folder).set_index("run")["state"].to_dict() == {
        begun: "interrupted",
        other.run.name: "finished",
    }
    monkeypatch.setitem(stages.VERSIONS, "training/images", 2)
    assert run_table(job.folder).set_index("run")["state"][other.run.name] == "stale"


ORPHAN = """
import os, sys, time
from trueneg.runtime import jobs
if sys.argv[2] == "old Linux":
    def refuse(process): raise OSError(38, "Function not implemented")
    jobs.os.pidfd_open = refuse
with jobs.job(sys.argv[1]):
    print("at work", flush=True)
    time.sleep(60)
"""
SNAKEMAKE = """
import os, subprocess, sys
os.environ["TRUENEG_SNAKEMAKE"] = str(os.getpid())  # as rules/common.smk does
command = [sys.executable, "-c", *sys.argv[1:]]
# A shell that stays between, as on older systems.
subprocess.run(["sh", "-c", '"$@"; true', "sh", *command])
"""


@pytest.mark.parametrize("system", ["today's", "old Linux"])
def test_a_job_ends_when_snakemake_is_killed_even_if_a_shell_between_them_survives(
    tmp_path, system
):
    command = [sys.executable, "-c", SNAKEMAKE, ORPHAN, str(tmp_path / "log"), system]
    snakemake = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert snakemake.stdout.readline() == "at work\n"
    snakemake.kill()
    snakemake.wait()
    assert snakemake.stdout.read() == ""  # ends only when the job has
    assert f"Snakemake (process {snakemake.pid})" in (tmp_path / "log").read_text()


def test_a_job_whose_snakemake_has_already_ended_ends_immediately(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    environment = os.environ | {"TRUENEG_SNAKEMAKE": str(dead.pid)}
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN, str(tmp_path / "log"), "today's"],
        env=environment,
        timeout=300,
    )
    assert done.returncode == 1


def test_the_lease_gets_the_number_of_runs_per_device(tmp_path, monkeypatch):
    asked = []

    @contextlib.contextmanager
    def lease(wanted, *, share, count):
        asked.append((wanted, share, count))
        yield torch.device("cpu")

    monkeypatch.setattr(engine, "leased_device", lease)
    train_runs(**new_job(tmp_path, device="cuda", runs_per_device=3, epochs=1).arguments())
    assert asked == [("cuda", 3, 1)]


def test_runs_with_an_earlier_version_of_the_subsets_are_not_evaluated(tmp_path, monkeypatch):
    job = new_job(tmp_path, checkpoint_minutes=5).finish()
    # the subsets were drawn again, so test images may have been trained on
    monkeypatch.setitem(stages.VERSIONS, "subsets", 2)
    given = {key: job.arguments()[key] for key in ("manifest", "store", "source", "subsets")}
    with (
        pytest.raises(
            UserError, match=rf"{job.run.name}.*subsets version 1 \(now 2\).*Remove its folder"
        ),
        encoded_runs(device="cpu", threads=1, **given),
    ):
        pass

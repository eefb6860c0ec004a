"""A full disk, lack of memory or a NaN loss gives a readable error and no finished run, and the
command can be repeated.
"""

import contextlib
import os
import resource
import subprocess
import time

import pytest
import torch

from tests.training.interrupted import new_job
from trueneg.errors import UserError
from trueneg.io.files import atomic_write
from trueneg.runtime.memory import catch_out_of_memory
from trueneg.store.run_store import RunStore
from trueneg.text.masked_lm import MaskedLMTraining, new_masked_lm
from trueneg.training.engine import train_runs


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The same job, uninterrupted."""
    job = new_job(tmp_path_factory.mktemp("peaceful"), epochs=2)
    train_runs(**job.arguments())
    return job


@contextlib.contextmanager
def mounted(folder, *options):
    """Mount a small disk; this needs root, and is not allowed in every container."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except OSError as error:
        pytest.skip(f"mount cannot be run: {error}")
    if done.returncode:
        pytest.skip(f"a disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)


@contextlib.contextmanager
def files_of_at_most(size):
    """Limit the size of files, so that writes fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def unfinished(job):
    return {path.name for path in job.store.path.iterdir()} and not list(
        job.store.path.glob(f"*/{RunStore.RECORD}")
    )


def test_a_file_size_limit_is_reported_and_the_run_resumes_without_it(reference, tmp_path):
    job = new_job(tmp_path, epochs=2)
    size = len(reference.model)
    with (
        files_of_at_most(size // 2),
        pytest.raises(UserError, match=r"\.safetensors \(File too large\).*ulimit -f"),
    ):
        train_runs(**job.arguments())
    assert unfinished(job)
    assert not (job.folder / "manifest.json").exists()
    assert not [path for path in job.run.iterdir() if path.name.startswith(".")]
    train_runs(**job.arguments())
    assert job.model == reference.model


def test_a_full_disk_is_reported_and_the_run_resumes_when_there_is_space(reference, tmp_path):
    job = new_job(tmp_path / "job", epochs=2)
    with mounted(tmp_path / "job/runs", "-o", "size=400k"):
        hog = tmp_path / "job/runs/hog"
        hog.write_bytes(b"x" * 250_000)
        with pytest.raises(
            UserError, match=r"\(No space left on device\).*free some space on this disk"
        ):
            train_runs(**job.arguments())
        assert unfinished(job)
        hog.unlink()
        subprocess.run(
            ["mount", "-o", "remount,size=4m", str(tmp_path / "job/runs")], check=True, timeout=30
        )
        train_runs(**job.arguments())
        assert job.model == reference.model


@pytest.mark.parametrize("writer", ["parquet", "npz", "json", "pixels"])
def test_every_writer_of_files_reports_a_full_disk(tmp_path, writer):
    import numpy as np
    import pandas as pd

    numbers = np.random.default_rng(0).integers(0, 256, 400_000, np.uint8)
    write = {
        "parquet": lambda path: pd.DataFrame({"a": numbers}).to_parquet(path),
        "npz": lambda path: np.savez(path.open("wb"), a=numbers),
        "json": lambda path: path.write_text("[" + ", ".join(map(str, numbers)) + "]"),
        "pixels": lambda path: path.write_bytes(numbers),
    }[writer]
    with (
        mounted(tmp_path / "disk", "-o", "size=64k"),
        pytest.raises(UserError, match=r"table \(No space left on device\)"),
        atomic_write(tmp_path / "disk/table") as path,
    ):
        write(path)


def test_a_read_only_results_folder_is_reported(tmp_path):
    job = new_job(tmp_path / "job")
    with (
        mounted(tmp_path / "job/runs", "-o", "ro"),
        pytest.raises(UserError, match=r"\(Read-only file system\).*choose a folder"),
    ):
        train_runs(**job.arguments())
    assert not (job.folder / "manifest.json").exists()


def test_a_network_that_does_not_fit_in_memory_leaves_no_finished_run(tmp_path):
    """Allocate terabytes, which fails immediately; torch has no specific error for this on a
    CPU.
    """
    job = new_job(tmp_path)
    job.runs[0]["settings"]["projection"]["hidden"] = 10**12
    with pytest.raises(RuntimeError):
        train_runs(**job.arguments())
    assert unfinished(job)


def test_gpu_out_of_memory_is_reported_and_the_run_resumes(reference, tmp_path, monkeypatch):
    job = new_job(tmp_path, epochs=2)
    steps, step = [], torch.optim.Adam.step

    def out_of_memory(optimizer, *arguments):
        steps.append(optimizer)
        if len(steps) == 15:
            raise torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of …"
            )
        return step(optimizer, *arguments)

    monkeypatch.setattr(torch.optim.Adam, "step", out_of_memory)
    with pytest.raises(
        UserError, match=r"digits, DCL-true, seed 0: out of memory\..*batch_size from 64 to 32"
    ):
        train_runs(**job.arguments())
    assert unfinished(job)
    train_runs(**job.arguments())
    assert len(steps) == 15 + 22 - 14
    assert job.model == reference.model


def test_other_errors_are_not_reported_as_out_of_memory():
    with (
        pytest.raises(RuntimeError, match="shapes"),
        catch_out_of_memory("training", "Nothing to do."),
    ):
        raise RuntimeError("shapes do not match")


def test_a_nan_loss_leaves_no_finished_run(tmp_path):
    job = new_job(tmp_path, learning_rate=1e30)
    told = (
        r"The loss became nan in epoch (\d) of 3 \(updates \d+ to \d+ of 33, objective dcl,"
        r" seed 0\)"
    )
    with pytest.raises(UserError, match=told):
        train_runs(**job.arguments())
    assert unfinished(job)
    assert job.store.progress(job.run.name)["spent"]


def test_nan_weights_after_the_last_update_leave_no_finished_run(tmp_path):
    """The last loss is finite, because it is computed before the update."""
    job = new_job(tmp_path, learning_rate=1e300, epochs=None, updates=1)
    with pytest.raises(
        UserError,
        match=(
            "digits, DCL-true, seed 0: after the last of 1 updates, the weights contain NaN or inf"
        ),
    ):
        train_runs(**job.arguments())
    assert unfinished(job)


def test_a_diverging_language_model_is_reported():
    sentences = [f"The nodule measures {number} cm." for number in range(40)]
    settings = {
        "epochs": 2,
        "patience": 2,
        "batch_size": 8,
        "learning_rate": 1e30,
        "weight_decay": 0.01,
        "warmup": 0.1,
        "mask_share": 0.2,
        "validation_sentences": 5,
        "vocabulary": 200,
        "hidden": 16,
        "layers": 1,
        "heads": 2,
        "longest": 32,
    }
    model, tokenizer = new_masked_lm(sentences, settings, 0)
    training = MaskedLMTraining(
        model, tokenizer, (sentences[:30], sentences[30:]), settings, 0, torch.device("cpu")
    )
    with pytest.raises(UserError, match=r"epoch 1 of 2 \(seed 0\).*learning_rate, which is 1e\+30"):
        training.train_epoch(lambda: None)


@pytest.mark.parametrize("jump", [-1e9, pytest.param(1e9, marks=pytest.mark.long)])
def test_jumps_of_the_system_clock_have_no_effect(reference, tmp_path, monkeypatch, jump):
    """The system time and the modification times of files from an earlier attempt."""
    job = new_job(tmp_path, epochs=2)
    job.killed_at(RunStore.CURVES, "half written")
    told = time.time()
    for path in job.run.iterdir():
        os.utime(path, (told + jump, told + jump))
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + jump)
    train_runs(**job.arguments())
    assert job.model == reference.model
    assert 0 < job.record["seconds"] < 600

"""A run that is killed and resumed equals an uninterrupted one bit for bit, wherever it is
killed.
"""

import random

import pytest
import torch

from tests.studies import first_run, tiny_study
from tests.training.interrupted import (
    EVERY_UPDATE,
    KilledError,
    assert_same_weights,
    new_job,
    train_to_the_end,
    without_times,
)
from tests.training.test_simclr import settings_of, started
from trueneg.data.images.loading import load_source
from trueneg.runtime.checkpoint import Checkpoint
from trueneg.store.run_store import RunStore

WHOLE = 11  # updates in an epoch of the digits


def test_a_checkpoint_from_before_a_monitor_was_added_restarts_the_run(source, tmp_path, caplog):
    settings = settings_of()
    with pytest.raises(KilledError):
        trained(source, settings, tmp_path / "run", stop_after=2)
    (path,) = (tmp_path / "run").glob(RunStore.CHECKPOINT)
    training = started(source, settings=settings)
    training.monitors.register_buffer("added", torch.zeros(3))
    checkpoint = Checkpoint(tmp_path / "run", "digest", minutes=EVERY_UPDATE, about={})
    assert checkpoint.restore(training) == []
    assert training.updates_done == 0
    assert not path.exists()
    assert "outdated" in caplog.text
    assert "starts from the beginning" in caplog.text


@pytest.fixture(scope="module")
def source():
    return load_source("digits")


def scheduled_settings(epochs):
    """BCL with a measured location and a decreasing concentration, so an epoch's settings depend on
    earlier epochs.
    """
    study = tiny_study()
    adjusted, linear = (
        {"schedule": "adjusted", "every": 0.5},
        {"schedule": "linear", "start": 2.0, "end": 0.0, "every": 0.25},
    )
    study["objectives"]["BCL"] = {
        "name": "bcl",
        "class_probability": 0.1,
        "alpha": adjusted,
        "beta": linear,
    }
    study["training"] |= {"epochs": epochs, "schedule": "cosine"}
    return first_run("tiny", {"tiny": study}, "BCL").to_json()["settings"]


def settings_at_equal_updates():
    settings = settings_of("DCL-true")
    settings["training"] |= {"epochs": None, "updates": 2 * WHOLE + 4, "schedule": "cosine"}
    settings["projection"]["dropout"] = 0.5
    return settings


SETTINGS = {"scheduled": scheduled_settings(3), "equal updates": settings_at_equal_updates()}


def trained(source, settings, folder, stop_after=None):
    """Train to the end, or until killed after ``stop_after`` updates; return the run and its
    rows.
    """
    training = started(source, settings=settings)
    return training, train_to_the_end(training, folder, stop_after)


@pytest.fixture(scope="module")
def uninterrupted(source, tmp_path_factory):
    return {
        name: trained(source, settings, tmp_path_factory.mktemp("whole"))
        for name, settings in SETTINGS.items()
    }


@pytest.mark.parametrize(
    ("name", "stops"),
    [
        ("scheduled", (5, 3, 9)),
        ("equal updates", (WHOLE, 1)),
        *(pytest.param(name, (24,), marks=pytest.mark.long) for name in SETTINGS),
        pytest.param("scheduled", (WHOLE, 1), marks=pytest.mark.long),
        pytest.param("equal updates", (5, 3, 9), marks=pytest.mark.long),
    ],
)
def test_a_run_continues_from_any_update_with_the_same_weights_and_rows(
    source, uninterrupted, tmp_path, name, stops
):
    for stop_after in stops:
        with pytest.raises(KilledError):
            trained(source, SETTINGS[name], tmp_path, stop_after)
    training, rows = trained(source, SETTINGS[name], tmp_path)
    expected, expected_rows = uninterrupted[name]
    assert_same_weights(expected, training)
    assert without_times(rows) == without_times(expected_rows)


def test_the_duration_of_an_interrupted_epoch_includes_all_attempts(source, tmp_path):
    with pytest.raises(KilledError):
        trained(source, SETTINGS["scheduled"], tmp_path, WHOLE - 1)
    training = started(source, settings=SETTINGS["scheduled"])
    Checkpoint(tmp_path, "digest", minutes=5, about={}).restore(training)
    before = training.seconds
    assert training.update == WHOLE - 1
    assert training.train_epoch()["seconds"] > before > 0


def test_restored_moments_have_the_memory_layout_of_the_optimiser(source, tmp_path):
    original, restored = started(source), started(source)
    original.train_epoch()
    tensors, values = original.state()
    assert all(tensor.is_contiguous() for tensor in tensors.values())
    restored.load_state(tensors, values)
    for ours, theirs in zip(
        restored.optimizer.state.values(), original.optimizer.state.values(), strict=True
    ):
        assert {name: value.stride() for name, value in ours.items()} == {
            name: value.stride() for name, value in theirs.items()
        }


def saved_checkpoint(source, folder, digest="digest"):
    training = started(source)
    checkpoint = Checkpoint(folder, digest, minutes=EVERY_UPDATE, about={})
    training.train_epoch(lambda: checkpoint.after_update(training, []))
    (folder / RunStore.PREVIOUS).unlink()
    return folder / RunStore.CHECKPOINT


@pytest.mark.parametrize(
    "damage", ["cut", "flipped", "flipped in the metadata", "emptied", "something else"]
)
def test_a_damaged_checkpoint_is_moved_aside_and_the_run_restarts(source, tmp_path, caplog, damage):
    path = saved_checkpoint(source, tmp_path)
    content = bytearray(path.read_bytes())
    if damage.startswith("flipped"):
        position = (
            len(content) * 2 // 3 if damage == "flipped" else content.index(b"learning_rate") + 20
        )
        content[position] ^= 1
    damaged = {
        "cut": content[: len(content) // 2],
        "emptied": b"",
        "something else": b"x" * 100,
    }.get(damage, content)
    path.write_bytes(damaged)
    training = started(source)
    expected = {name: value.clone() for name, value in training.weights().items()}
    assert Checkpoint(tmp_path, "digest", minutes=5, about={}).restore(training) == []
    assert (training.epoch, training.update) == (0, 0)
    assert all(torch.equal(value, training.weights()[name]) for name, value in expected.items())
    assert "is damaged" in caplog.text
    assert not path.exists()
    assert (tmp_path / "checkpoint.damaged.safetensors").read_bytes() == damaged


@pytest.mark.parametrize("damage", ["cut", "emptied", "gone"])
def test_a_run_resumes_from_the_previous_checkpoint_if_the_last_is_damaged(
    source, uninterrupted, tmp_path, caplog, damage
):
    with pytest.raises(KilledError):
        trained(source, SETTINGS["scheduled"], tmp_path, stop_after=7)
    path = tmp_path / RunStore.CHECKPOINT
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3 if damage == "cut" else 0])
    if damage == "gone":
        path.unlink()  # as after a kill between the two renames
    caplog.set_level("INFO")
    training, rows = trained(source, SETTINGS["scheduled"], tmp_path)
    assert "resumes in epoch 1 after 6 updates" in caplog.text
    assert "from the beginning" not in caplog.text
    expected, expected_rows = uninterrupted["scheduled"]
    assert_same_weights(expected, training)
    assert without_times(rows) == without_times(expected_rows)


def test_a_checkpoint_of_other_settings_data_or_code_is_moved_aside(source, tmp_path, caplog):
    path = saved_checkpoint(source, tmp_path)
    content = path.read_bytes()
    training = started(source)
    assert Checkpoint(tmp_path, "another", minutes=5, about={}).restore(training) == []
    assert (training.epoch, training.update) == (0, 0)
    assert "different settings, data or versions of the code" in caplog.text
    assert (tmp_path / "checkpoint.outdated.safetensors").read_bytes() == content


def test_a_short_run_writes_no_checkpoint_and_a_long_run_writes_them_at_intervals(
    source, tmp_path, monkeypatch
):
    now = [0.0]
    monkeypatch.setattr("trueneg.runtime.checkpoint.time.monotonic", lambda: now[0])
    training = started(source)
    training.train_epoch()
    checkpoint = Checkpoint(tmp_path, "digest", minutes=5, about={})
    path = tmp_path / RunStore.CHECKPOINT
    for now[0] in (1, 3, 9):
        checkpoint.after_epoch(training, [])
    assert not path.exists()
    now[0] = 11
    checkpoint.after_epoch(training, [])
    first = path.stat().st_mtime_ns
    now[0] += 299
    checkpoint.after_update(training, [])
    assert path.stat().st_mtime_ns == first
    now[0] += 1
    checkpoint.after_update(training, [])
    assert path.stat().st_mtime_ns > first


def test_the_record_includes_the_time_of_killed_failed_and_outdated_attempts(tmp_path, monkeypatch):
    job = new_job(tmp_path)
    job.killed_at(RunStore.CHECKPOINT, "written")
    monkeypatch.setattr("trueneg.runtime.checkpoint.time.monotonic", lambda: now[0])
    now = [0.0]

    def fail():
        with Checkpoint(job.run, "another", minutes=5, about={}, device="H100", devices=2):
            now[0] = 100.0
            raise KilledError

    with pytest.raises(KilledError):
        fail()
    monkeypatch.undo()
    job.finish()
    attempts = job.record["attempts"]
    assert [attempt["device"] for attempt in attempts] == ["cpu", "H100", "cpu"]
    assert attempts[1]["seconds"] == 100
    assert 0 < attempts[0]["seconds"] < 60
    assert attempts[0]["digest"] == attempts[2]["digest"] != attempts[1]["digest"]
    assert job.record["seconds"] == pytest.approx(
        sum(attempt["seconds"] for attempt in attempts), abs=1e-3
    )
    assert job.record["gpu_seconds"] == 200


def killed_then_finished(reference, folder, draw, kills):
    """Kill a job at random times, several times in a row, then let it finish."""
    seconds, was_running = reference.record["seconds"], [False]
    while not any(was_running):
        job = new_job(folder / f"{seconds}")
        was_running = [job.killed_after(draw.uniform(0.2, seconds)) for _ in range(kills)]
        seconds /= 2  # every attempt finished: the reference run was slower, because of other load
    return job.finish()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The same job, uninterrupted."""
    return new_job(tmp_path_factory.mktemp("reference")).finish()


def test_a_job_killed_at_random_times_ends_with_the_same_model(reference, tmp_path):
    job = killed_then_finished(reference, tmp_path, random.Random(3), kills=4)
    assert job.model == reference.model
    assert (job.folder / "manifest.json").read_bytes() == (
        reference.folder / "manifest.json"
    ).read_bytes()
    assert {path.name for path in job.run.iterdir()} == {
        RunStore.LOCK,
        RunStore.MODEL,
        RunStore.CURVES,
        RunStore.RECORD,
    }


FILES = [RunStore.CHECKPOINT, RunStore.PROGRESS, RunStore.CURVES, RunStore.MODEL, RunStore.RECORD]


@pytest.mark.parametrize("moment", ["half written", "written"])
def test_a_job_killed_while_it_writes_each_file_ends_with_the_same_model(
    reference, tmp_path, moment
):
    """Each attempt gets as far as the next file."""
    job = new_job(tmp_path)
    for name in FILES:
        job.killed_at(name, moment)
    job.finish()
    assert job.model == reference.model
    assert {path.name for path in job.run.iterdir()} == {
        RunStore.LOCK,
        RunStore.MODEL,
        RunStore.CURVES,
        RunStore.RECORD,
    }


def test_a_job_killed_while_it_trains_a_run_without_weights_again_is_not_finished(
    reference, tmp_path
):
    job = new_job(tmp_path).finish()
    (job.run / RunStore.MODEL).unlink()
    job.killed_at(RunStore.MODEL, "written")
    assert job.store.state(job.run.name) == "started"
    assert job.finish().model == reference.model


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_a_job_killed_at_other_random_times_ends_with_the_same_model(reference, tmp_path, seed):
    draw = random.Random(seed)
    job = killed_then_finished(reference, tmp_path, draw, kills=draw.randint(1, 3))
    assert job.model == reference.model

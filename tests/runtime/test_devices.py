"""Leases between real processes, one of them killed; and which physical device CUDA_VISIBLE_DEVICES means."""

import contextlib
import fcntl
import itertools
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.errors import UserError
from trueneg.runtime import devices as module
from trueneg.runtime.devices import choose_device, lease, leased_device, read_listing, visible_devices

WAIT = 300  # seconds after which a test gives up
TWO_GPUS = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1a5f)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-9c20)\n"
INSTANCES = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef)
  MIG 1c.2g.10gb  Device  1: (UUID: MIG-cba663e8)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-e86cb44c)
"""

# A job: leases a device, tells which, works until it is told to end. No torch: what is tested are the processes.
JOB = """
import sys, time
from pathlib import Path
from trueneg.runtime.devices import lease
journal, end, share, *devices = sys.argv[1:]
journal = Path(journal)
with lease(devices, share=int(share)) as (name,):
    journal.open("a").write(f"{time.monotonic()} {name}\\n")
    while not Path(end).exists():
        time.sleep(0.01)
    journal.open("a").write(f"{time.monotonic()} end\\n")
"""


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch) -> Path:
    """Leases in a folder of the test's own, no device chosen by others, no Slurm; what a lease sets is undone."""
    monkeypatch.setenv("TRUENEG_LEASES", str(tmp_path / "leases"))
    monkeypatch.setattr(module, "POLL_SECONDS", 0.02)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # so that monkeypatch remembers to restore it
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    return tmp_path / "leases"


class Job:
    """A process that holds a lease."""

    def __init__(self, folder: Path, name: str, devices: Sequence[str], share: int = 1):
        self.journal, self.ending = folder / f"{name}.journal", folder / f"{name}.end"
        command = [sys.executable, "-c", JOB, str(self.journal), str(self.ending), str(share), *devices]
        self.process = subprocess.Popen(command)

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.journal.read_text().splitlines()] if self.journal.exists() else []

    @property
    def device(self) -> str | None:
        """What it has leased; None while it waits."""
        return self.lines()[0][1] if self.lines() else None

    @property
    def span(self) -> tuple[float, float]:
        """When it held its device."""
        (begin, _), (end, _) = self.lines()
        return float(begin), float(end)

    def end(self) -> None:
        self.ending.touch()

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(WAIT)


@pytest.fixture
def start(tmp_path) -> Iterator:
    """Starts jobs, and leaves none behind."""
    jobs: list[Job] = []

    def start(devices: Sequence[str], share: int = 1) -> Job:
        jobs.append(Job(tmp_path, f"job{len(jobs)}", devices, share))
        return jobs[-1]

    yield start
    for job in jobs:
        with contextlib.suppress(ProcessLookupError):
            job.kill()


def until(condition) -> None:
    """Wait for something that has to come."""
    deadline = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail("waited in vain")
        time.sleep(0.01)


def running(jobs: Sequence[Job]) -> list[Job]:
    """Jobs that hold a device now."""
    return [job for job in jobs if len(job.lines()) == 1 and job.process.poll() is None]


# Leases


def test_four_jobs_on_one_device_run_one_after_another(start):
    jobs = [start(["device-0"]) for _ in range(4)]
    until(lambda: running(jobs))
    time.sleep(1)  # long enough for the others to start and to take what they should not
    assert len(running(jobs)) == 1
    for job in jobs:
        job.end()
    until(lambda: all(job.process.poll() == 0 for job in jobs))
    spans = sorted(job.span for job in jobs)
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(spans))


def test_two_jobs_on_two_devices_run_side_by_side_on_one_each_and_a_third_gets_the_place_of_the_killed(start):
    devices = ["device-0", "device-1"]
    first, second = start(devices), start(devices[::-1])
    until(lambda: first.device and second.device)
    assert {first.device, second.device} == set(devices)
    third = start(devices)
    time.sleep(1)  # long enough to start and to take what it should not
    assert third.device is None
    second.kill()
    until(lambda: third.device)
    assert third.device == second.device != first.device
    assert running([first, third]) == [first, third]


def test_more_jobs_than_devices_never_share_one_though_some_are_killed(start):
    devices = ["device-0", "device-1"]
    waiting, killed = [start(devices) for _ in range(6)], []
    while waiting:
        until(lambda: len(running(waiting)) == min(2, len(waiting)))
        assert len({job.device for job in running(waiting)}) == min(2, len(waiting))
        job = running(waiting)[0]
        if len(waiting) % 2:
            job.kill()
            killed.append(job)
        else:
            job.end()
            until(lambda job=job: job.process.poll() == 0)
        waiting.remove(job)
    assert len(killed) == 3


def test_as_many_as_the_share_hold_a_device_and_devices_fill_up_evenly(start):
    devices = ["device-0", "device-1"]
    pairs = []
    for _ in range(2):
        pair = [start(devices, share=2), start(devices, share=2)]
        until(lambda pair=pair: all(job.device for job in pair))
        pairs.append(pair)
    assert [{job.device for job in pair} for pair in pairs] == [set(devices)] * 2
    fifth = start(devices, share=2)
    time.sleep(1)
    assert fifth.device is None
    pairs[0][1].kill()
    until(lambda: fifth.device)
    assert fifth.device == pairs[0][1].device


@pytest.mark.parametrize(("holders", "comer"), [(2, 1), (1, 2)])
def test_who_wants_a_device_alone_has_it_alone(start, holders, comer):
    holding = start(["device-0"], share=holders)
    until(lambda: holding.device)
    waiting = start(["device-0"], share=comer)
    time.sleep(1)
    assert waiting.device is None
    holding.end()
    until(lambda: waiting.device)
    assert holding.span[1] <= float(waiting.lines()[0][0])


# Leases several devices again and again; whoever holds one, marks it with a file that must not be there.
ROUNDS = """
import os, random, sys, time
from pathlib import Path
from trueneg.runtime import devices
devices.POLL_SECONDS = 0.002
folder, seed, rounds, count, *names = sys.argv[1:]
draw = random.Random(seed)
for _ in range(int(rounds)):
    with devices.lease(draw.sample(names, len(names)), count=int(count)) as held:
        marks = [Path(folder, f"{name}.held") for name in held]
        for mark in marks:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        time.sleep(draw.uniform(0, 0.004))
        for mark in marks:
            mark.unlink()
"""


def test_processes_that_want_two_of_three_devices_neither_share_one_nor_wait_for_each_other_forever(tmp_path):
    names = ["device-0", "device-1", "device-2"]
    counts = ("2", "2", "2", "1", "3")
    commands = [
        [sys.executable, "-c", ROUNDS, str(tmp_path), str(seed), "40", count, *names] for seed, count in enumerate(counts)
    ]
    processes = [subprocess.Popen(command) for command in commands]
    try:
        assert [process.wait(WAIT) for process in processes] == [0] * 5
    finally:
        for process in processes:
            process.kill()


def test_several_devices_are_taken_together_or_not_at_all():
    names = ["device-0", "device-1", "device-2"]
    with lease(names, count=2) as held:
        assert held == ("device-0", "device-1")
        taken = []
        thread = threading.Thread(target=lambda: taken.append(lease(names, count=2).__enter__()), daemon=True)
        thread.start()
        time.sleep(0.5)
        assert not taken
        with lease(names) as (third,):  # the one that waits holds nothing
            assert third == "device-2"
    thread.join(WAIT)
    assert taken


def test_the_lease_file_names_the_holder_and_only_its_owner_can_read_it(environment):
    with lease(["MIG-GPU-5d5b/1/0"]):
        path = environment / "MIG-GPU-5d5b%2F1%2F0"
        assert path.read_text() == f"{os.getpid()}\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(environment.stat().st_mode) == 0o700


def test_a_lease_ends_with_its_block_even_if_a_forked_child_lives_on():
    with lease(["device-0"]):
        child = os.fork()
        if child == 0:
            time.sleep(2 * WAIT)
            os._exit(0)
    try:
        taken = threading.Thread(target=lambda: lease(["device-0"]).__enter__(), daemon=True)
        taken.start()
        taken.join(WAIT)
        assert not taken.is_alive()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def waiting(caplog):
    """Log entries of a job that waits for a device."""
    return [record for record in caplog.records if "waiting for a device: device-0" in record.getMessage()]


def test_waiting_is_told_once_and_then_at_intervals(caplog, monkeypatch):
    monkeypatch.setattr(module, "REPORT_SECONDS", 0.4)
    caplog.set_level(logging.INFO, logger=module.__name__)
    with lease(["device-0"]):
        caplog.clear()
        taken = threading.Thread(target=lambda: lease(["device-0"]).__enter__(), daemon=True)
        taken.start()
        until(lambda: len(waiting(caplog)) >= 3)
    taken.join(WAIT)
    moments = [record.created for record in waiting(caplog)]
    assert all(later - earlier > 0.3 for earlier, later in itertools.pairwise(moments))  # and not at every look


def test_leases_lie_in_a_folder_of_the_users_own(tmp_path, monkeypatch):
    monkeypatch.delenv("TRUENEG_LEASES")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"trueneg-leases-{os.getuid()}"
    with lease(["device-0"]):
        assert (folder / "device-0").exists()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_is_a_link_or_somebody_elses_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("TRUENEG_LEASES")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    owner = os.getuid()
    (tmp_path / f"trueneg-leases-{owner}").symlink_to(tmp_path)
    for user in (owner, owner + 1):
        monkeypatch.setattr("os.getuid", lambda user=user: user)
        with pytest.raises(UserError, match=r"is a link or belongs to another user.*TRUENEG_LEASES"), lease(["device-0"]):
            pass


def test_the_folder_is_locked_against_cleaning_while_a_lease_is_held(environment):
    with lease(["device-0"]):
        folder = os.open(environment, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder)


# What CUDA_VISIBLE_DEVICES means

uuids = st.text("0123456789abcdef", min_size=8, max_size=8)


@st.composite
def machines(draw) -> dict[str, list[str]]:
    """GPUs, some cut into instances, under names of which none begins another."""
    cuts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    names = iter(draw(st.lists(uuids, min_size=sum(cuts) + len(cuts), max_size=sum(cuts) + len(cuts), unique=True)))
    instances = {f"GPU-{next(names)}": [f"MIG-{next(names)}" for _ in range(cut)] for cut in cuts}
    return {gpu: cut or [gpu] for gpu, cut in instances.items()}


@st.composite
def settings_of(draw, gpus: dict[str, list[str]]) -> tuple[str, list[str]]:
    """A value of CUDA_VISIBLE_DEVICES, written in one of the ways that CUDA allows, and the devices that it means."""
    kind = draw(st.sampled_from(["index", "GPU", "MIG"]))
    instances = [(name, [name]) for devices in gpus.values() for name in devices if name.startswith("MIG-")]
    wholes = list(gpus.items())
    pool = {"index": [(str(index), means) for index, (_, means) in enumerate(wholes)], "GPU": wholes, "MIG": instances}[kind]
    chosen = draw(st.lists(st.sampled_from(pool), unique_by=lambda pair: pair[0])) if pool else []
    entries = []
    for name, _ in chosen:
        others = [other for other, _ in pool if other != name]
        shortest = (
            next(end for end in range(5, 13) if not any(other.startswith(name[:end]) for other in others))
            if kind != "index"
            else 0
        )
        entry = name[: draw(st.integers(shortest, len(name)))] if kind != "index" else name
        entries.append(draw(st.sampled_from(["", " "])) + entry)
    return ",".join(entries), [device for _, means in chosen for device in means]


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_any_spelling_of_the_setting_means_the_same_physical_devices(data):
    gpus = data.draw(machines())
    setting, meant = data.draw(settings_of(gpus))
    assert visible_devices(setting, gpus) == meant


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_the_list_ends_at_what_names_nothing(data):
    gpus = data.draw(machines())
    setting, meant = data.draw(settings_of(gpus))
    further = data.draw(st.sampled_from(["-1", "", "NoDevFiles", "none", str(len(gpus)), "GPU-x", "GPU-" + "0" * 9]))
    assert visible_devices(",".join([*filter(None, [setting]), further, "0"]), gpus) == meant


@pytest.mark.parametrize("setting", ["", " ", "-1", "NoDevFiles", "void", "2", "GPU-", "GPU-f", "MIG-c"])
def test_some_settings_show_nothing(setting):
    assert visible_devices(setting, read_listing(INSTANCES)) == []


def test_the_listing_of_nvidia_smi_is_read_with_its_instances():
    assert read_listing(TWO_GPUS) == {"GPU-1a5f": ["GPU-1a5f"], "GPU-9c20": ["GPU-9c20"]}
    cut = read_listing(INSTANCES)
    assert cut == {"GPU-5d5ba0d6": ["MIG-c6d4f1ef", "MIG-cba663e8"], "GPU-e86cb44c": ["GPU-e86cb44c"]}
    assert visible_devices(None, cut) == ["MIG-c6d4f1ef", "MIG-cba663e8", "GPU-e86cb44c"]
    assert read_listing("No devices found.\n") == read_listing("") == {}


# The device of a process


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Pretends a machine: what nvidia-smi lists (None: it is not there), and whether torch could compute on a GPU."""

    def pretend(listing: str | None, works: bool = True, count: int = 1) -> None:
        folder = tmp_path / "bin"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if listing is not None:
            (tmp_path / "listing").write_text(listing)
            (folder / "nvidia-smi").write_text(f'#!/bin/sh\ntest "$1" = -L && exec /bin/cat {tmp_path / "listing"}\n')
            (folder / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: works)
        monkeypatch.setattr(torch.cuda, "init", lambda: None)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return pretend


def leased(environment: Path) -> set[str]:
    """What has ever been leased."""
    return {path.name for path in environment.iterdir()} - {"looking"} if environment.exists() else set()


def test_a_process_that_wants_several_devices_sees_them_and_is_told_if_there_are_fewer(machine):
    machine(TWO_GPUS, count=2)
    with leased_device("auto", count=2) as device:
        assert device == torch.device("cuda")
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1a5f,GPU-9c20"
    with (
        pytest.raises(UserError, match=r"training\.devices is 3, but this process can use only 2"),
        leased_device("auto", count=3),
    ):
        pass


def test_a_process_sees_only_the_device_that_it_has_leased(machine):
    machine(TWO_GPUS)
    with leased_device("auto") as device, lease(["GPU-9c20"]):
        assert device == torch.device("cuda")
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1a5f"
    with leased_device("cuda"):  # once more: CUDA has read the variable, so it must be the same
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1a5f"


@pytest.mark.parametrize("setting", [None, "1,0", "0,1", "GPU-9c20,GPU-1a5f", "GPU-1,GPU-9"])
def test_whatever_others_call_the_devices_two_processes_agree_on_them(machine, monkeypatch, setting):
    machine(TWO_GPUS)
    if setting is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    with lease(["GPU-1a5f"]), leased_device("auto"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-9c20"


def test_a_device_that_others_hide_is_not_leased(machine, monkeypatch, environment):
    machine(TWO_GPUS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with leased_device("auto"):
        assert leased(environment) == {"GPU-9c20"}


def test_instances_of_one_gpu_are_leased_one_by_one(machine, environment):
    machine(INSTANCES)
    with lease(["MIG-c6d4f1ef"]), leased_device("cuda"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "MIG-cba663e8"


def test_a_device_can_be_shared(machine, environment):
    machine("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1a5f)")
    with leased_device("auto", share=2), leased_device("auto", share=2):
        assert leased(environment) == {"GPU-1a5f", "GPU-1a5f.0", "GPU-1a5f.1"}


def test_cpu_leases_nothing(machine, environment):
    machine(TWO_GPUS)
    with leased_device("cpu") as device:
        assert device == torch.device("cpu")
    assert leased(environment) == set()
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


@pytest.mark.parametrize(("listing", "setting"), [(None, None), ("No devices found.\n", None), (TWO_GPUS, ""), (TWO_GPUS, "-1")])
def test_without_a_gpu_auto_is_the_cpu_and_says_so_and_cuda_is_an_error(
    machine, monkeypatch, environment, caplog, listing, setting
):
    machine(listing, works=False, count=0)
    caplog.set_level(logging.INFO, logger=module.__name__)
    if setting is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    with leased_device("auto") as device:
        assert device == torch.device("cpu")
    assert "device: cpu" in caplog.text
    with pytest.raises(UserError, match=r"training.device is 'cuda'.*no GPU.*set training.device to cpu"), leased_device("cuda"):
        pass
    assert leased(environment) == set()


def test_without_nvidia_smi_one_device_is_leased_and_several_are_an_error(machine, monkeypatch, environment):
    machine(None, count=1)
    with leased_device("auto"):
        assert leased(environment) == {"0"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with leased_device("auto"):
        assert leased(environment) == {"0", "3"}
    machine(None, count=2)
    with pytest.raises(UserError, match=r"sees 2 GPUs, but cannot run nvidia-smi"), leased_device("auto"):
        pass


def test_a_lease_after_cuda_was_initialised_on_several_devices_is_an_error(machine):
    machine(TWO_GPUS, count=2)
    with pytest.raises(RuntimeError, match=r"CUDA was initialised before GPU-1a5f was leased"), leased_device("auto"):
        pass


# Slurm


@pytest.fixture
def slurm(machine, monkeypatch):
    """Pretends a job of Slurm on a node with two GPUs."""

    def pretend(listing: str | None = TWO_GPUS, works: bool = True, count: int = 1, **environ: str) -> None:
        machine(listing, works, count)
        for name, value in {"SLURM_JOB_ID": "7", **environ}.items():
            monkeypatch.setenv(name, value)

    return pretend


def test_the_one_device_that_slurm_assigned_is_used_without_a_lease(slurm, environment):
    slurm(CUDA_VISIBLE_DEVICES="1", SLURM_JOB_GPUS="1", SLURM_GPUS_ON_NODE="1")
    with leased_device("auto") as device:
        assert device == torch.device("cuda")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert leased(environment) == set()


def test_of_several_devices_that_slurm_assigned_one_is_leased(slurm, environment):
    slurm(CUDA_VISIBLE_DEVICES="0,1", SLURM_JOB_GPUS="0,1", SLURM_GPUS_ON_NODE="2")
    with lease(["GPU-1a5f"]), leased_device("auto"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-9c20"


@pytest.mark.parametrize("environ", [{}, {"SLURM_GPUS_ON_NODE": "0"}, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}])
def test_a_slurm_job_that_asked_for_no_gpu_takes_none_of_the_node(slurm, environment, environ):
    slurm(**environ)
    with leased_device("auto") as device:
        assert device == torch.device("cpu")
    with (
        pytest.raises(UserError, match=r"training.device is 'cuda'.*Slurm job has no GPU.*request one from Slurm"),
        leased_device("cuda"),
    ):
        pass
    assert leased(environment) == set()


@pytest.mark.parametrize("asked", [{"SLURM_JOB_GPUS": "0"}, {"SLURM_STEP_GPUS": "0"}, {"SLURM_GPUS_ON_NODE": "1"}])
def test_a_slurm_job_that_asked_for_a_gpu_and_has_none_is_an_error(slurm, asked):
    expected = r"training.device is 'auto', but this Slurm job has no GPU that torch can use"
    for listing, setting in [(TWO_GPUS, ""), (None, "0"), (TWO_GPUS, "0")]:
        slurm(listing, works=False, count=0, CUDA_VISIBLE_DEVICES=setting, **asked)
        with pytest.raises(UserError, match=expected), leased_device("auto"):
            pass


# No lease


def test_choosing_takes_a_gpu_if_there_is_one(machine):
    machine(TWO_GPUS)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda")
    machine(None, works=False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match=r"training.device is 'cuda', but this process has no GPU that torch can use"):
        choose_device("cuda")


def test_an_index_on_a_machine_of_several_models_needs_an_order(machine, monkeypatch):
    machine(TWO_GPUS.replace("H100 80GB HBM3", "T1000", 1))
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    with leased_device("auto"):
        pass  # no index, no question
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(UserError, match=r"CUDA_DEVICE_ORDER=PCI_BUS_ID"), leased_device("auto"):
        pass
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    with leased_device("auto"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1a5f"


def test_a_device_that_is_named_twice_hides_all_as_for_cuda():
    assert visible_devices("0,0", {"GPU-1a5f": ["GPU-1a5f"]}) == []

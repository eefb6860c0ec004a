"""Leases of devices between processes, and the devices that CUDA_VISIBLE_DEVICES and Slurm make
visible.
"""

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
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.errors import UserError
from trueneg.runtime import devices as module
from trueneg.runtime.devices import (
    choose_device,
    lease,
    leased_device,
    read_listing,
    visible_devices,
)

WAIT = 300  # seconds after which a test fails
SHORT = 0.5  # seconds in which a waiting lease would be granted if the device were free
NAMES = ["device-0", "device-1", "device-2"]
TWO_GPUS = (
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1a5f)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-9c20)\n"
)
INSTANCES = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef)
  MIG 1c.2g.10gb  Device  1: (UUID: MIG-cba663e8)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-e86cb44c)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A lease folder for the test, without Slurm and without CUDA_VISIBLE_DEVICES; both are
    restored afterwards.
    """
    monkeypatch.setenv("TRUENEG_LEASES", str(tmp_path / "leases"))
    monkeypatch.setattr(module, "POLL_SECONDS", 0.02)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # so that monkeypatch restores it
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    return tmp_path / "leases"


class Request:
    """A lease that another thread requests; as a context manager, it waits until the lease is
    granted, then holds it.
    """

    def __init__(self, names, **options):
        self.names, self.granted, self.end = None, threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._hold, args=(names, options), daemon=True)
        self.thread.start()

    def _hold(self, names, options):
        with lease(names, **options) as self.names:
            self.granted.set()
            self.end.wait()

    def __enter__(self):
        assert self.granted.wait(WAIT)
        return self.names

    def __exit__(self, *_):
        self.end.set()
        self.thread.join(WAIT)


# Leases


def test_a_killed_process_releases_its_device():
    code = (
        "from trueneg.runtime.devices import lease\nwith lease(['device-0']): print('held',"
        " flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        request = Request(NAMES[:1])
        assert not request.granted.wait(SHORT)
        process.kill()
        with request as names:
            assert names == ("device-0",)


# Leases devices repeatedly; a process that holds one creates a file that must not exist yet.
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


def test_processes_that_need_one_to_three_devices_never_share_one_and_never_deadlock(tmp_path):
    commands = [
        [str(tmp_path), str(seed), "40", count, *NAMES] for seed, count in enumerate("22213")
    ]
    processes = [
        subprocess.Popen([sys.executable, "-c", ROUNDS, *arguments]) for arguments in commands
    ]
    try:
        assert [process.wait(WAIT) for process in processes] == [0] * 5
    finally:
        for process in processes:
            process.kill()


def test_several_devices_are_leased_together_or_not_at_all():
    with lease(NAMES, count=2) as names:
        assert names == ("device-0", "device-1")
        request = Request(NAMES, count=2)
        assert not request.granted.wait(SHORT)
        with lease(NAMES) as (third,):  # the waiting request holds nothing
            assert third == "device-2"
    with request:
        pass


def test_shared_devices_fill_up_evenly_and_the_next_process_waits():
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(lease(NAMES[:2], share=2))[0] for _ in range(3)]
        with Request(NAMES[:2], share=2) as names:
            held += names
            request = Request(NAMES[:2], share=2)
            assert not request.granted.wait(SHORT)
        with request as names:
            assert [*held, *names] == ["device-0", "device-1", "device-0", "device-1", "device-1"]


@pytest.mark.parametrize(("first", "second"), [(2, 1), (1, 2)])
def test_an_exclusive_lease_excludes_processes_that_would_share(first, second):
    with lease(NAMES[:1], share=first):
        request = Request(NAMES[:1], share=second)
        assert not request.granted.wait(SHORT)
    with request:
        pass


def test_only_the_owner_can_read_the_lease_file_which_names_the_process(folder):
    with lease(["MIG-GPU-5d5b/1/0"]):
        path = folder / "MIG-GPU-5d5b%2F1%2F0"
        assert path.read_text() == f"{os.getpid()}\n"
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(folder.stat().st_mode)) == (
            0o600,
            0o700,
        )


def test_a_lease_ends_with_its_block_even_if_a_forked_child_survives():
    with lease(NAMES[:1]):
        child = os.fork()
        if child == 0:
            time.sleep(2 * WAIT)
            os._exit(0)
    try:
        with Request(NAMES[:1]):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_waiting_is_logged_at_intervals(caplog, monkeypatch):
    monkeypatch.setattr(module, "REPORT_SECONDS", 0.4)
    caplog.set_level(logging.INFO, logger=module.__name__)
    with lease(NAMES[:1]):
        request = Request(NAMES[:1])
        time.sleep(1.5)
    with request:
        times = [
            record.created
            for record in caplog.records
            if "waiting for a device: device-0" in record.getMessage()
        ]
    assert len(times) >= 3
    # not at every poll
    assert all(later - earlier > 0.3 for earlier, later in itertools.pairwise(times))


def test_the_default_folder_belongs_to_the_user_and_is_no_link(tmp_path, monkeypatch):
    monkeypatch.delenv("TRUENEG_LEASES")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    user = os.getuid()
    with lease(NAMES[:1]):
        assert (tmp_path / f"trueneg-leases-{user}/device-0").exists()
    assert stat.S_IMODE((tmp_path / f"trueneg-leases-{user}").stat().st_mode) == 0o700
    (tmp_path / f"trueneg-leases-{user + 1}").symlink_to(tmp_path)
    # owned by this user, not by the pretended one
    (tmp_path / f"trueneg-leases-{user + 2}").mkdir()
    for other in (user + 1, user + 2):
        monkeypatch.setattr("os.getuid", lambda other=other: other)
        with (
            pytest.raises(UserError, match=rf"trueneg-leases-{other}.*TRUENEG_LEASES"),
            lease(NAMES[:1]),
        ):
            pass


def test_the_folder_is_locked_against_cleaning_while_a_lease_is_held(folder):
    with lease(NAMES[:1]):
        descriptor = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


# CUDA_VISIBLE_DEVICES


@st.composite
def machines_with_settings(draw):
    """GPUs, some split into instances; a value of CUDA_VISIBLE_DEVICES in one of CUDA's notations;
    and the devices it selects.
    """
    cuts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    count = sum(cuts) + len(cuts)
    names = iter(
        draw(
            st.lists(
                st.text("0123456789abcdef", min_size=8, max_size=8),
                min_size=count,
                max_size=count,
                unique=True,
            )
        )
    )
    split = {f"GPU-{next(names)}": [f"MIG-{next(names)}" for _ in range(cut)] for cut in cuts}
    gpus = {gpu: instances or [gpu] for gpu, instances in split.items()}
    by_index = {str(index): devices for index, devices in enumerate(gpus.values())}
    by_instance = {name: [name] for instances in split.values() for name in instances}
    selectable = draw(st.sampled_from([by_index, gpus, by_instance]))
    chosen = draw(st.lists(st.sampled_from([*selectable]), unique=True)) if selectable else []
    entries = []
    for name in chosen:
        others = [other for other in selectable if other != name]
        prefixes = [name[:end] for end in range(min(5, len(name)), len(name) + 1)]
        unique = [
            prefix for prefix in prefixes if not any(other.startswith(prefix) for other in others)
        ]
        entries.append(draw(st.sampled_from(["", " "])) + draw(st.sampled_from(unique)))
    return gpus, entries, [device for name in chosen for device in selectable[name]]


@given(
    machines_with_settings(),
    st.sampled_from([None, "-1", "", "NoDevFiles", "none", "9", "GPU-x", "GPU-" + "0" * 9]),
)
@settings(deadline=None, max_examples=300)
def test_a_setting_selects_devices_by_index_or_unique_prefix_up_to_the_first_invalid_entry(
    example, invalid
):
    gpus, entries, expected = example
    entries = entries if invalid is None else [*entries, invalid, "0"]
    assert visible_devices(",".join(entries), gpus) == expected


@pytest.mark.parametrize(
    "setting",
    ["", " ", "-1", "NoDevFiles", "void", "2", "GPU-", "GPU-f", "MIG-c", "0,0", "1,GPU-e8"],
)
def test_settings_that_select_no_device(setting):
    assert visible_devices(setting, read_listing(INSTANCES)) == []


def test_the_listing_of_nvidia_smi_is_read_with_its_instances():
    assert read_listing(TWO_GPUS) == {"GPU-1a5f": ["GPU-1a5f"], "GPU-9c20": ["GPU-9c20"]}
    gpus = read_listing(INSTANCES)
    assert gpus == {
        "GPU-5d5ba0d6": ["MIG-c6d4f1ef", "MIG-cba663e8"],
        "GPU-e86cb44c": ["GPU-e86cb44c"],
    }
    assert visible_devices(None, gpus) == ["MIG-c6d4f1ef", "MIG-cba663e8", "GPU-e86cb44c"]
    assert read_listing("No devices found.\n") == read_listing("") == {}


# The device of a process


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Simulate a machine: the output of nvidia-smi (None: not installed), the GPUs that torch can
    use, environment variables.
    """

    def simulate(listing: str | None, gpus: int = 1, **environ: str) -> None:
        path = tmp_path / "bin"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        if listing is not None:
            (tmp_path / "listing").write_text(listing)
            (path / "nvidia-smi").write_text(
                f'#!/bin/sh\ntest "$1" = -L && exec /bin/cat {tmp_path / "listing"}\n'
            )
            (path / "nvidia-smi").chmod(0o755)
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "init", lambda: None)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        for name, value in {"PATH": str(path), **environ}.items():
            monkeypatch.setenv(name, value)

    return simulate


def leased(folder: Path) -> set[str]:
    """Names of the devices that have been leased so far."""
    return {path.name for path in folder.iterdir()} - {"looking"} if folder.exists() else set()


def visible() -> str | None:
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def refused(message: str, wanted: str = "auto", **options) -> None:
    with pytest.raises(UserError, match=message), leased_device(wanted, **options):
        pass


def test_a_process_sees_only_the_devices_it_leased(machine):
    machine(TWO_GPUS)
    with leased_device("auto") as device, lease(["GPU-9c20"]):
        assert (device, visible()) == (torch.device("cuda"), "GPU-1a5f")
    # CUDA reads the variable once, so a second lease in the process must give the same device
    with leased_device("cuda"):
        assert visible() == "GPU-1a5f"


def test_a_process_that_needs_several_devices_gets_them_or_an_error(machine):
    machine(TWO_GPUS, gpus=2)
    with leased_device("auto", count=2) as device:
        assert (device, visible()) == (torch.device("cuda"), "GPU-1a5f,GPU-9c20")
    refused(r"training\.devices is 3.*only 2", count=3)


@pytest.mark.parametrize("setting", [None, "1,0", "GPU-9c20,GPU-1a5f", "GPU-1,GPU-9"])
def test_processes_with_different_names_for_a_device_agree_on_its_lease(machine, setting):
    machine(TWO_GPUS, **({} if setting is None else {"CUDA_VISIBLE_DEVICES": setting}))
    with lease(["GPU-1a5f"]), leased_device("auto"):
        assert visible() == "GPU-9c20"


def test_hidden_devices_are_not_leased_and_instances_are_leased_separately(machine, folder):
    machine(TWO_GPUS, CUDA_VISIBLE_DEVICES="1")
    with leased_device("auto"):
        assert leased(folder) == {"GPU-9c20"}
    machine(INSTANCES, CUDA_VISIBLE_DEVICES="0")
    with lease(["MIG-c6d4f1ef"]), leased_device("cuda"):
        assert visible() == "MIG-cba663e8"


def test_several_runs_can_share_a_device(machine, folder):
    machine("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1a5f)")
    with leased_device("auto", share=2), leased_device("auto", share=2):
        assert leased(folder) == {"GPU-1a5f", "GPU-1a5f.0", "GPU-1a5f.1"}


def test_cpu_leases_nothing(machine, folder):
    machine(TWO_GPUS)
    with leased_device("cpu") as device:
        assert (device, visible(), leased(folder)) == (torch.device("cpu"), None, set())


@pytest.mark.parametrize(
    ("listing", "environ"),
    [
        (None, {}),
        ("No devices found.\n", {}),
        *((TWO_GPUS, {"CUDA_VISIBLE_DEVICES": setting}) for setting in ("", "-1")),
    ],
)
def test_without_a_gpu_auto_logs_that_it_uses_the_cpu_and_cuda_is_an_error(
    machine, folder, caplog, listing, environ
):
    machine(listing, gpus=0, **environ)
    caplog.set_level(logging.INFO, logger=module.__name__)
    with leased_device("auto") as device:
        assert device == choose_device("auto") == torch.device("cpu")
    assert "device: cpu" in caplog.text
    refused(r"training.device is 'cuda'.*no GPU", "cuda")
    assert leased(folder) == set()


def test_without_nvidia_smi_one_device_is_leased_and_several_are_an_error(machine, folder):
    machine(None)
    with leased_device("auto"):
        assert leased(folder) == {"0"}
    machine(None, CUDA_VISIBLE_DEVICES="3")
    with leased_device("auto"):
        assert leased(folder) == {"0", "3"}
    machine(None, gpus=2)
    refused(r"2 GPUs.*nvidia-smi")


def test_initialising_cuda_before_the_lease_is_an_error(machine):
    machine(TWO_GPUS, gpus=2)
    with (
        pytest.raises(RuntimeError, match=r"CUDA was initialised before GPU-1a5f was leased"),
        leased_device("auto"),
    ):
        pass


def test_an_index_on_a_machine_with_several_gpu_models_needs_an_order(machine, monkeypatch):
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    listing = TWO_GPUS.replace("H100 80GB HBM3", "T1000", 1)
    machine(listing, CUDA_VISIBLE_DEVICES="GPU-1a5f")
    with leased_device("auto"):
        pass  # a name is unambiguous
    machine(listing, CUDA_VISIBLE_DEVICES="0,1")
    refused(r"CUDA_DEVICE_ORDER=PCI_BUS_ID")
    machine(listing, CUDA_VISIBLE_DEVICES="0,1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    with leased_device("auto"):
        assert visible() == "GPU-1a5f"


def test_choosing_a_device_takes_a_gpu_if_there_is_one(machine):
    machine(TWO_GPUS)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda")
    assert choose_device("cpu") == torch.device("cpu")


# Slurm


def test_the_only_device_that_slurm_assigned_is_used_without_a_lease(machine, folder):
    machine(
        TWO_GPUS,
        SLURM_JOB_ID="7",
        CUDA_VISIBLE_DEVICES="1",
        SLURM_JOB_GPUS="1",
        SLURM_GPUS_ON_NODE="1",
    )
    with leased_device("auto") as device:
        assert (device, visible(), leased(folder)) == (torch.device("cuda"), "1", set())


def test_one_of_several_devices_that_slurm_assigned_is_leased(machine):
    machine(
        TWO_GPUS,
        SLURM_JOB_ID="7",
        CUDA_VISIBLE_DEVICES="0,1",
        SLURM_JOB_GPUS="0,1",
        SLURM_GPUS_ON_NODE="2",
    )
    with lease(["GPU-1a5f"]), leased_device("auto"):
        assert visible() == "GPU-9c20"


@pytest.mark.parametrize(
    "environ", [{}, {"SLURM_GPUS_ON_NODE": "0"}, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}]
)
def test_a_slurm_job_that_requested_no_gpu_uses_none(machine, folder, environ):
    machine(TWO_GPUS, SLURM_JOB_ID="7", **environ)
    with leased_device("auto") as device:
        assert device == torch.device("cpu")
    refused(r"'cuda'.*Slurm job has no GPU.*from Slurm", "cuda")
    assert leased(folder) == set()


@pytest.mark.parametrize(
    "requested", [{"SLURM_JOB_GPUS": "0"}, {"SLURM_STEP_GPUS": "0"}, {"SLURM_GPUS_ON_NODE": "1"}]
)
def test_a_slurm_job_that_requested_a_gpu_but_has_none_is_an_error(machine, requested):
    for listing, setting in [(TWO_GPUS, ""), (None, "0"), (TWO_GPUS, "0")]:
        machine(listing, gpus=0, SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES=setting, **requested)
        refused(r"'auto'.*Slurm job has no GPU")

"""Choose the device of a process, and lease it so that no other training job uses it.

This module imports torch only when a device is requested, so that a lease takes milliseconds.
"""

import contextlib
import fcntl
import itertools
import logging
import os
import re
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import AcquireReturnProxy, FileLock, Timeout

from trueneg.errors import UserError

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

VISIBLE = "CUDA_VISIBLE_DEVICES"
LEASES = "TRUENEG_LEASES"
POLL_SECONDS = 0.5
REPORT_SECONDS = 60.0


def choose_device(wanted: str) -> "torch.device":
    """Return the device for the setting ``training.device``, without a lease: the first visible
    GPU, or the CPU.

    Args:
        wanted: ``"auto"`` (a GPU if there is one, else the CPU), ``"cpu"`` or ``"cuda"``.

    Raises:
        UserError: if a GPU is requested, or was assigned by Slurm, but torch cannot use one.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    import torch

    return torch.device("cuda") if wanted != "cpu" and torch.cuda.is_available() else _cpu(wanted)


def device_name(device: "torch.device") -> str:
    """Return the name of a device for records: the model of a GPU, or ``cpu``."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@contextlib.contextmanager
def leased_device(wanted: str, *, share: int = 1, count: int = 1) -> Iterator["torch.device"]:
    """Yield a device that satisfies the setting ``training.device``; wait while all devices are
    taken. See :func:`lease`.

    Call this before CUDA is initialised (``torch.cuda.is_available()`` initialises it):
    ``CUDA_VISIBLE_DEVICES`` is set to the leased device and keeps this value after the lease,
    because CUDA reads it only once.

    In a Slurm job (``SLURM_JOB_ID``), only the devices in ``CUDA_VISIBLE_DEVICES`` are assigned to
    the job; if the variable is not set, none are, whatever the node has. If exactly `count` are
    assigned, they need no lease, because Slurm reserves them. If there are more, `count` are
    leased, because Snakemake can start several jobs in one allocation. ``SLURM_JOB_GPUS``,
    ``SLURM_STEP_GPUS`` and ``SLURM_GPUS_ON_NODE`` show whether the job requested a GPU. If it did
    but none is usable, this is an error even with ``"auto"``; a job that requested none trains on
    the CPU.

    With `count` > 1, the first device is yielded, and ``CUDA_VISIBLE_DEVICES`` lists all of them
    for worker processes started in the block.

    Args:
        wanted: ``"auto"`` (a GPU if there is one, else the CPU), ``"cpu"`` (nothing is leased) or
            ``"cuda"``.
        share: number of processes that may hold one device at a time.
        count: number of devices.

    Raises:
        UserError: if there are too few GPUs, or it is unclear which devices to use.
        RuntimeError: if CUDA was already initialised and sees other devices.
    """
    in_slurm = "SLURM_JOB_ID" in os.environ
    devices = (
        []
        if wanted == "cpu"
        else _usable_devices(os.environ.get(VISIBLE, "" if in_slurm else None))
    )
    if not devices:
        yield _cpu(wanted)
    elif len(devices) < count:
        raise UserError(
            f"training.devices is {count}, but this process can use only {len(devices)} ({VISIBLE}"
            f" is {os.environ.get(VISIBLE, 'not set')!r}). Lower training.devices, or give the job"
            " more GPUs."
        )
    elif in_slurm and len(devices) == count:
        yield choose_device(wanted)
    else:
        with lease(devices, count=count, share=share) as names:
            os.environ[VISIBLE] = ",".join(names)
            device = choose_device(wanted)
            if device.type == "cuda":
                _check_confined(names)
            yield device


@contextlib.contextmanager
def lease(devices: Sequence[str], *, count: int = 1, share: int = 1) -> Iterator[tuple[str, ...]]:
    """Lease the first `count` free devices; if too few are free, log this and wait.

    Either all or none are taken, and nothing is held while waiting, so processes that need several
    devices cannot deadlock.

    A lease is an ``flock`` on a file named after the device, on this node; the kernel releases it
    when the process ends, for any reason. The files are in a user-specific folder in the temporary
    directory, or in ``$TRUENEG_LEASES``; processes must use the same folder to see each other's
    leases.

    Args:
        devices: physical names, the same in every process (a UUID, not an index in
            ``CUDA_VISIBLE_DEVICES``).
        count: number of devices to lease, at most ``len(devices)``.
        share: number of processes that may hold one device at a time; 1 means exclusive use, even
            if other processes allow sharing. Devices fill up evenly. Processes that share devices
            should use the same value.

    Yields:
        The names of the devices.

    Raises:
        UserError: if the folder belongs to another user.

    Example:
        >>> with lease(["device-0", "device-1", "device-2"], count=2) as names:
        ...     print(*names)
        device-0 device-1
    """
    folder = _lease_folder()
    reported = -REPORT_SECONDS
    with contextlib.ExitStack() as stack:
        descriptor = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        # programs that clean up temporary files skip locked folders
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        held = stack.enter_context(contextlib.ExitStack())
        while len(names := _take(held, folder, devices, count, share)) < count:
            if time.monotonic() - reported >= REPORT_SECONDS:
                log.info(
                    f"waiting for a device: {', '.join(devices)} in use ({folder} contains the"
                    " process ids)",
                )
                reported = time.monotonic()
            time.sleep(POLL_SECONDS)
        log.info(f"device: leased {', '.join(names)}")
        yield tuple(names)


def _take(
    held: contextlib.ExitStack, folder: Path, devices: Sequence[str], count: int, share: int
) -> list[str]:
    """Lock `count` devices or none; only one process searches at a time, so that none sees
    another's temporary locks.
    """
    names: list[str] = []
    with _lock(folder / "looking", timeout=-1):
        for place, name in itertools.product(range(share), devices):
            if len(names) < count and name not in names:
                with contextlib.suppress(Timeout):
                    held.enter_context(
                        _lock_place(folder, urllib.parse.quote(name, safe=""), place, share)
                    )
                    names.append(name)
        if len(names) < count:
            held.close()
    return names


def _lock_place(folder: Path, device: str, place: int, share: int) -> AcquireReturnProxy:
    """Lock a whole device, or one numbered slot of a shared device; raise Timeout if it is
    taken.
    """
    leased = folder / (device if share == 1 else f"{device}.{place}")
    for path in folder.glob(f"{device}.*") if share == 1 else [folder / device]:
        with _lock(path):
            pass
    lock = _lock(leased)
    leased.write_text(f"{os.getpid()}\n")  # shows users who holds the device
    return lock


def _lock(path: Path, timeout: float = 0) -> AcquireReturnProxy:
    return FileLock(path, timeout=timeout, mode=0o600, fallback_to_soft=False).acquire()


def _lease_folder() -> Path:
    folder = Path(
        os.environ.get(LEASES) or Path(tempfile.gettempdir(), f"trueneg-leases-{os.getuid()}")
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.environ.get(LEASES) and (folder.is_symlink() or folder.stat().st_uid != os.getuid()):
        raise UserError(
            f"{folder} is a link or belongs to another user; remove it, or set {LEASES} to another"
            " folder."
        )
    return folder


def read_listing(listing: str) -> dict[str, list[str]]:
    """Map each GPU in ``nvidia-smi -L`` output, in PCI bus order, to its compute devices: its MIG
    instances, or itself.

    Example:
        >>> read_listing("GPU 0: NVIDIA H100 (UUID: GPU-7f1e)")
        {'GPU-7f1e': ['GPU-7f1e']}
    """
    gpus = re.split(r"^(?=GPU )", listing, flags=re.MULTILINE)
    uuids = [re.findall(r"\(UUID: ((?:GPU|MIG)-[^)]+)\)", gpu) for gpu in gpus]
    return {names[0]: names[1:] or names for names in uuids if names}


def visible_devices(setting: str | None, gpus: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the physical names of the devices that a value of ``CUDA_VISIBLE_DEVICES`` makes
    visible, in its order.

    As in CUDA, an entry is an index or a unique prefix of a name, and the list ends before the
    first invalid entry. Indices follow the PCI bus order. A GPU that is split into MIG instances
    stands for all of them.

    Args:
        setting: the variable's value; None if it is not set, which makes all devices visible.
        gpus: the GPUs of the machine, from :func:`read_listing`.

    Example:
        >>> gpus = {"GPU-7f1e": ["GPU-7f1e"], "GPU-02c4": ["GPU-02c4"]}
        >>> visible_devices("1,0", gpus)
        ['GPU-02c4', 'GPU-7f1e']
        >>> visible_devices("GPU-02", gpus)
        ['GPU-02c4']
        >>> visible_devices("", gpus)
        []
    """
    by_name = {**gpus, **{device: [device] for devices in gpus.values() for device in devices}}
    by_index = {str(index): devices for index, devices in enumerate(gpus.values())}
    seen: dict[str, None] = {}
    for entry in [*by_index] if setting is None else map(str.strip, setting.split(",")):
        named = [devices for name, devices in by_name.items() if entry and name.startswith(entry)]
        named += [by_index[entry]] if entry in by_index else []
        if len(named) != 1:
            break
        # if any device is listed twice, CUDA shows no devices
        if not seen.keys().isdisjoint(named[0]):
            return []
        seen.update(dict.fromkeys(named[0]))
    return list(seen)


def _usable_devices(setting: str | None) -> list[str]:
    """Return the physical names of the devices that this process may use."""
    import torch

    if not torch.backends.cuda.is_built():
        return []
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        listing = ""
    gpus = read_listing(listing)
    models = set(re.findall(r"^GPU \d+: (.+) \(UUID", listing, re.MULTILINE))
    # By default, CUDA lists the fastest GPU first, and nvidia-smi uses PCI bus order; with several
    # models, these can differ.
    in_bus_order = len(models) < 2 or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if setting and setting.strip()[:1].isdigit() and not in_bus_order:
        raise UserError(
            f"{VISIBLE} is '{setting}', which is ambiguous on a machine with several GPU models;"
            " set CUDA_DEVICE_ORDER=PCI_BUS_ID to use the indices of nvidia-smi, or use the names"
            " that `nvidia-smi -L` prints (GPU-…)."
        )
    if gpus:
        return visible_devices(setting, gpus)
    # Without nvidia-smi there are no physical names to tell several devices apart, so only one is
    # supported.
    count = torch.cuda.device_count()
    if count > 1:
        raise UserError(
            f"this process sees {count} GPUs, but cannot run nvidia-smi to get their names; "
            f"add nvidia-smi to the PATH, or set {VISIBLE} to one device per job."
        )
    return [(setting or "0").split(",")[0].strip()] * count


def _cpu(wanted: str) -> "torch.device":
    """Return the CPU, or raise an error if a GPU was requested or assigned."""
    import torch

    in_slurm = "SLURM_JOB_ID" in os.environ
    lists = (os.environ.get("SLURM_JOB_GPUS"), os.environ.get("SLURM_STEP_GPUS"))
    assigned = in_slurm and (
        any(lists) or os.environ.get("SLURM_GPUS_ON_NODE", "0") not in ("", "0")
    )
    if wanted == "cuda" or (wanted == "auto" and assigned):
        raise UserError(
            f"training.device is '{wanted}', but this {'Slurm job' if in_slurm else 'process'} has"
            f" no GPU that torch can use ({VISIBLE} is {os.environ.get(VISIBLE, 'not set')!r});"
            f" {'request one from Slurm' if in_slurm else 'use another machine'}, or set"
            " training.device to cpu."
        )
    if wanted == "auto":
        log.info(
            "device: cpu (training.device is auto, and this process has no GPU that torch can use)"
        )
    return torch.device("cpu")


def _check_confined(names: Sequence[str]) -> None:
    """Raise an error if CUDA sees devices other than the leased ones: it reads CUDA_VISIBLE_DEVICES
    only at initialisation.
    """
    import torch

    # before this, torch counts the devices in the variable, not those that CUDA sees
    torch.cuda.init()
    if torch.cuda.device_count() != len(names):
        raise RuntimeError(
            f"CUDA was initialised before {', '.join(names)} was leased, and sees"
            f" {torch.cuda.device_count()} devices. Call leased_device before any function that"
            " initialises CUDA."
        )

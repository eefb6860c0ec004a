"""Name the Snakemake process that locked a folder; Snakemake's own message does not tell a running
one from a killed one.
"""

import contextlib
import os
import socket
from pathlib import Path
from typing import NamedTuple

import psutil

from trueneg.io.files import write_text

# seconds by which two readings of the start of a process may differ if the clock was adjusted in
# between
CLOCK = 10
LOCKS = Path(".snakemake/locks")
OWNERS = Path(".snakemake/trueneg_owners")  # one file per process
FORCE = "TRUENEG_FORCE_UNLOCK"  # environment variable: "1" unlocks a folder that is in use
FORCED = f"{FORCE}=1 snakemake --unlock"


def record_owner() -> None:
    """Record this process as one that has just locked the current folder."""
    OWNERS.mkdir(parents=True, exist_ok=True)
    for owner in _owners():
        if owner.lives is False:
            owner.path.unlink(missing_ok=True)
    own = f"{os.getpid()} {psutil.Process().create_time()} {socket.gethostname()}"
    write_text(OWNERS / f"{os.getpid()}@{socket.gethostname()}", own)


def describe_lock() -> str:
    """Return a line about the process that locked the current folder, and what to do; empty if that
    process is not known.
    """
    match _owner():
        case owner, True:
            return (
                f"{owner} is using this folder: wait until it ends, or work in another clone. Do"
                " not unlock.\n"
            )
        case owner, False:
            return (
                f"{owner} was killed and left a lock in this folder. `snakemake --unlock` removes"
                " it, which is safe because that process has ended.\n"
            )
        case owner, None:
            return (
                f"{owner} locked this folder. `{FORCED}` removes the lock; use it only if that"
                " process is no longer running.\n"
            )
    return ""


def reason_not_to_unlock() -> str | None:
    """Return why `snakemake --unlock` must not remove the lock: its owner runs, or may run on
    another host; None if it may.
    """
    match None if os.environ.get(FORCE) == "1" else _owner():
        case owner, (True | None as lives):
            state = "is using this folder" if lives else "locked this folder and may still run"
            return (
                f"{owner} {state}, so the folder stays locked. Wait until that process ends;"
                f" `{FORCED}` unlocks it anyway."
            )
    return None


def _owner() -> tuple[str, bool | None] | None:
    """Return a process that locked the current folder, and whether it is running; None: on another
    host, so unknown. Of several, as two studies may run beside each other, one that runs comes
    first.
    """
    locked = sorted(lock.stat().st_mtime_ns for lock in LOCKS.glob("*"))
    if not locked:
        return None
    owners = [owner for owner in _owners() if owner.written >= locked[0]]
    running = [owner for owner in owners if owner.lives]
    if running:
        return running[0].name, True
    latest = max(owners, key=lambda owner: owner.written, default=None)
    if latest is not None and latest.written >= locked[-1]:
        return latest.name, latest.lives
    # A lock that is newer than the records belongs to a process that has not started its first job.
    if (starting := _starting()) is None:
        return None
    return f"Snakemake process {starting} on {socket.gethostname()}", True


class _Owner(NamedTuple):
    """A process that locked the folder: whether it is running (None: on another host), and when its
    file was written.
    """

    path: Path
    name: str
    lives: bool | None
    written: int


def _owners() -> list[_Owner]:
    """Return the processes that :data:`OWNERS` lists; another one may write or remove files
    meanwhile.
    """
    found = []
    for path in OWNERS.glob("[!.]*"):
        with contextlib.suppress(FileNotFoundError):
            process, started, host = path.read_text(encoding="utf-8").split()
            is_here = host == socket.gethostname()
            lives = _lives(int(process), float(started)) if is_here else None
            name = f"Snakemake process {process} on {host}"
            found.append(_Owner(path, name, lives, path.stat().st_mtime_ns))
    return found


def _starting() -> int | None:
    """Return the id of another Snakemake process in the current folder; None if there is none."""
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter(["cwd", "cmdline"]):
        is_here = process.info["cwd"] == os.getcwd() and process.pid not in ours
        command = [Path(part).name for part in (process.info["cmdline"] or ())[:3]]
        if is_here and "snakemake" in command:
            return process.pid
    return None


def _lives(process: int, started: float) -> bool:
    """Return whether a process still runs; another process may have its number by now."""
    try:
        return abs(psutil.Process(process).create_time() - started) < CLOCK
    except psutil.NoSuchProcess:
        return False

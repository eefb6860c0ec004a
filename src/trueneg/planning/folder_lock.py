"""Name the Snakemake process that locked a folder; Snakemake's own message does not tell a running
one from a killed one.
"""

import os
import socket
from pathlib import Path

import psutil

from trueneg.io.files import write_text

# seconds by which two readings of the start of a process may differ if the clock was adjusted in
# between
CLOCK = 10
LOCKS = Path(".snakemake/locks")
OWNERS = Path(".snakemake/trueneg_owners")  # one file per process, named by its id
FORCE = "TRUENEG_FORCE_UNLOCK"  # environment variable: "1" unlocks a folder that is in use
FORCED = f"{FORCE}=1 snakemake --unlock"


def record_owner() -> None:
    """Record this process as one that has just locked the current folder."""
    OWNERS.mkdir(parents=True, exist_ok=True)
    for path in OWNERS.iterdir():
        if _recorded(path)[1] is False:
            path.unlink(missing_ok=True)
    own = f"{os.getpid()} {psutil.Process().create_time()} {socket.gethostname()}"
    write_text(OWNERS / str(os.getpid()), own)


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
    locked = sorted(_written(lock) for lock in LOCKS.glob("*"))
    if not locked:
        return None
    paths = [path for path in OWNERS.glob("*") if _written(path) >= locked[0]]
    running = [owner for owner in map(_recorded, paths) if owner[1]]
    if running:
        return running[0]
    latest = max(paths, key=_written, default=None)
    if latest is not None and _written(latest) >= locked[-1]:
        return _recorded(latest)
    # A lock that is newer than the records belongs to a process that has not started its first job.
    if (starting := _starting()) is None:
        return None
    return f"Snakemake process {starting} on {socket.gethostname()}", True


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns


def _recorded(path: Path) -> tuple[str, bool | None]:
    """Return the process that a file of :data:`OWNERS` names, and whether it is running."""
    process, started, host = path.read_text(encoding="utf-8").split()
    lives = _lives(int(process), float(started)) if host == socket.gethostname() else None
    return f"Snakemake process {process} on {host}", lives


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

"""Name the Snakemake process that locked a folder; Snakemake's own message does not tell a running one from a killed one."""

import os
import socket
from pathlib import Path

import psutil

from trueneg.io.files import write_text

CLOCK = 10  # seconds by which two readings of the start of a process may differ if the clock was adjusted in between
LOCKS, OWNER = Path(".snakemake/locks"), Path(".snakemake/trueneg_owner")


def record_owner() -> None:
    """Record this process as the one that has just locked the current folder."""
    write_text(OWNER, f"{os.getpid()} {psutil.Process().create_time()} {socket.gethostname()}")


def describe_lock() -> str:
    """Return a line about the process that locked the current folder, and what to do; empty if that process is not known."""
    locks = list(LOCKS.glob("*")) if OWNER.is_file() else []
    # A lock that is newer than the record belongs to a process that has not started its first job.
    if not locks or max(lock.stat().st_mtime_ns for lock in locks) > OWNER.stat().st_mtime_ns:
        return ""
    process, started, host = OWNER.read_text(encoding="utf-8").split()
    owner = f"Snakemake process {process} on {host}"
    if host != socket.gethostname():
        return f"{owner} locked this folder. `snakemake --unlock` removes the lock; use it only if that process no longer runs.\n"
    if _lives(int(process), float(started)):
        return f"{owner} is using this folder: wait until it ends, or work in another clone. Do not unlock.\n"
    return f"{owner} was killed and left a lock in this folder, which `snakemake --unlock` removes.\n"


def _lives(process: int, started: float) -> bool:
    """Return whether a process still runs; another process may have its number by now."""
    try:
        return abs(psutil.Process(process).create_time() - started) < CLOCK
    except psutil.NoSuchProcess:
        return False

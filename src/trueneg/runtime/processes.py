"""Worker processes that exit when the process that started them does."""

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

import psutil

POLL_SECONDS = 0.5

Result = TypeVar("Result")

log = logging.getLogger(__name__)


def end_with(process: int, name: str) -> None:
    """Exit this process as soon as another one has ended, for any reason.

    For a job, watching the parent is not enough: with some versions of the shell, a shell process
    stays between Snakemake and the job, and survives if Snakemake is killed.
    """
    threading.Thread(target=_exit_after, args=(process, name), daemon=True).start()


def _exit_after(process: int, name: str) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        watched = psutil.Process(process)
        while watched.is_running() and watched.status() != psutil.STATUS_ZOMBIE:
            time.sleep(POLL_SECONDS)
    log.error(f"{name} (process {process}) has ended; this process exits")
    os._exit(1)


def map_in_processes(
    function: Callable[..., Result], *iterables: Collection[Any], processes: int, chunksize: int
) -> Iterator[Result]:
    """Like ``map``, with worker processes if there is more than one chunk; they exit when this
    process exits or is killed.

    The workers are spawned rather than forked, because this process may have threads.
    """
    if processes == 1 or len(iterables[0]) <= chunksize:
        yield from map(function, *iterables)
        return
    parent = os.getpid(), "the process that started this worker"
    with (
        without_main_script(),
        ProcessPoolExecutor(processes, get_context("spawn"), end_with, parent) as pool,
    ):
        yield from pool.map(function, *iterables, chunksize=chunksize)


@contextlib.contextmanager
def without_main_script() -> Iterator[None]:
    """Prevent processes spawned in the block from running the main script.

    A spawned process runs the main script again unless ``__main__`` has no ``__file__``. The script
    of a job cannot run without the object ``snakemake``, which Snakemake provides.
    """
    main = sys.modules["__main__"]
    file = main.__dict__.pop("__file__", None)
    try:
        yield
    finally:
        if file is not None:
            main.__file__ = file

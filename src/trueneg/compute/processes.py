"""Worker processes that end with the process that started them."""

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
    """End this process as soon as another one has ended, however that one ends.

    Watching the parent is not enough for a job: depending on the shell's version there is a shell between it and Snakemake, which
    outlives a Snakemake that was killed.
    """
    threading.Thread(target=_end_after, args=(process, name), daemon=True).start()


def _end_after(process: int, name: str) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        watched = psutil.Process(process)
        while watched.is_running() and watched.status() != psutil.STATUS_ZOMBIE:
            time.sleep(POLL_SECONDS)
    log.error("%s (process %d) is gone: this process ends too", name, process)
    os._exit(1)


def map_in_processes(
    function: Callable[..., Result], *iterables: Collection[Any], processes: int, chunksize: int
) -> Iterator[Result]:
    """Like ``map``, in worker processes if there is more than one chunk; they end with this process, even if it is killed.

    Spawned, not forked: this process may hold threads.
    """
    if processes == 1 or len(iterables[0]) <= chunksize:
        yield from map(function, *iterables)
        return
    parent = os.getpid(), "the process that started this worker"
    with without_main_script(), ProcessPoolExecutor(processes, get_context("spawn"), end_with, parent) as pool:
        yield from pool.map(function, *iterables, chunksize=chunksize)


@contextlib.contextmanager
def without_main_script() -> Iterator[None]:
    """Keep processes that are spawned in the block from running the main script.

    They run it again unless it has no file, and a job's script cannot run without the object that Snakemake gives it.
    """
    main = sys.modules["__main__"]
    file = main.__dict__.pop("__file__", None)
    try:
        yield
    finally:
        if file is not None:
            main.__file__ = file

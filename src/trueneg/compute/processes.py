"""Worker processes that end with the process that started them."""

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import psutil

POLL_SECONDS = 0.5

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


@contextlib.contextmanager
def process_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of at most so many processes, which end with the one that asks, also if that is killed.

    Spawned, not forked: the asking process may hold threads.
    """
    parent = os.getpid(), "the process that started this worker"
    with without_main_script(), ProcessPoolExecutor(processes, get_context("spawn"), end_with, parent) as pool:
        yield pool


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

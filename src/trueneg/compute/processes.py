"""Several processes for work that Python does in one."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection, get_context, parent_process


@contextlib.contextmanager
def process_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes that import what their functions need, and not the script that asks.

    Spawned, not forked: the asking process may hold threads (torch's, the one that watches Snakemake). The processes end with
    the one that asks, also if that is killed.

    Args:
        processes: at most so many.
    """
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=end_with_parent)
    with without_main_script(), pool:
        yield pool


@contextlib.contextmanager
def without_main_script() -> Iterator[None]:
    """Keep processes that are spawned in the block from running the main script.

    They run it again unless it has no file, and a job's script means nothing without the object that Snakemake gives it.
    """
    main = sys.modules["__main__"]
    file = main.__dict__.pop("__file__", None)
    try:
        yield
    finally:
        if file is not None:
            main.__file__ = file


def end_with_parent() -> None:
    """End this process as soon as the one that spawned it is gone."""
    threading.Thread(target=_end_after_parent, name="end with parent", daemon=True).start()


def _end_after_parent() -> None:
    connection.wait([parent_process().sentinel])
    os._exit(1)

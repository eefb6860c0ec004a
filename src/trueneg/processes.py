"""Several processes for work that Python does in one."""

import contextlib
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


@contextlib.contextmanager
def process_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes that import what their functions need, and not the script that asks.

    Spawned, not forked: the asking process may hold threads (torch's, the one that watches Snakemake). A spawned process runs
    the main script again unless that has no file, and a job's script means nothing without the object that Snakemake gives it.

    Args:
        processes: at most so many.
    """
    main = sys.modules["__main__"]
    file = main.__dict__.pop("__file__", None)
    try:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            yield pool
    finally:
        if file is not None:
            main.__file__ = file

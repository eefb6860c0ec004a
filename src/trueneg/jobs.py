"""What every job of the pipeline does around its work: write its log, tell a user's mistake in a sentence, end with Snakemake."""

import contextlib
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from trueneg.errors import UserError
from trueneg.legible import legible
from trueneg.memory import lacks_memory

LACKS_MEMORY = "The memory of this job does not suffice: raise the mem_mb of its section of the configuration."
SNAKEMAKE = "TRUENEG_SNAKEMAKE"  # environment variable: the process of the Snakemake that starts this job

log = logging.getLogger(__name__)


def name_snakemake() -> None:
    """Tell the jobs that this process will start who started them; called where the Snakefile is read."""
    os.environ[SNAKEMAKE] = str(os.getpid())


def end_with_snakemake() -> None:
    """End this process as soon as the Snakemake that started it is gone.

    A Snakemake that is killed (SIGKILL, out of memory) cannot end its jobs, and they would go on computing for nobody. The
    parent process is not what to look at: depending on the shell's version a shell stands between, which outlives Snakemake,
    and a parent that died while this process started cannot be told from the one that took its place.
    """
    if SNAKEMAKE in os.environ:
        snakemake = int(os.environ[SNAKEMAKE])
        threading.Thread(target=_end_after, args=(snakemake,), name="end with Snakemake", daemon=True).start()


def _end_after(process: int) -> None:
    _wait_for_end(process)
    log.error("Snakemake (process %d) is gone: this job ends too", process)
    os._exit(1)


def _wait_for_end(process: int) -> None:
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or one that is too old or does not allow it
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(process, 0)
                time.sleep(1)
    else:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll()


class _Legible(logging.Formatter):
    """Names of files and of reports are others' text."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        # Further lines of a message are indented: none can pass for an entry of its own.
        return legible(super().formatMessage(record)).replace("\n", "\n    ")


@contextlib.contextmanager
def job(log: str | Path) -> Iterator[None]:
    """Log to a file while the block runs; a :class:`UserError` is printed as its sentence and ends the process with 1.

    From here on the process ends when its Snakemake does.

    Args:
        log: the job's log file; begun anew.
    """
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log, mode="w", encoding="utf-8")
    handler.setFormatter(_Legible("%(asctime)s  %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
    logger = logging.getLogger("trueneg")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    end_with_snakemake()
    try:
        yield
    except UserError as error:
        logger.error("%s", error)
        print(f"\n{error}\n", file=sys.stderr)
        sys.exit(1)
    except BaseException as error:
        if isinstance(error, Exception) and lacks_memory(error):
            logger.exception(LACKS_MEMORY)
            print(f"\n{LACKS_MEMORY} Its log is {log}.\n", file=sys.stderr)
            sys.exit(1)
        logger.exception("the job ended with an error that is not the user's")
        raise
    finally:
        logger.removeHandler(handler)
        handler.close()

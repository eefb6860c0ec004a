"""Common behaviour of all pipeline jobs: write a log, report errors in one sentence, and exit when
Snakemake exits.
"""

import contextlib
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trueneg.errors import UserError, is_out_of_memory
from trueneg.io.seals import require_intact, seal
from trueneg.legible import LegibleFormatter, print_traceback
from trueneg.runtime.processes import end_with

OUT_OF_MEMORY = "Out of memory: raise mem_mb in this job's section of the configuration."
GPU_OUT_OF_MEMORY = (
    "The GPU is out of memory: stop other programs that use it, or set device: cpu in this job's"
    " section of the configuration."
)
_CRASHED = (
    "A native library crashed; the log contains the stack trace. Run the job again; if it crashes"
    " again, report the trace."
)
_CAUSES: dict[int, str] = {
    signal.SIGKILL: (
        "Most likely, the machine or the job ran out of memory: raise mem_mb in this job's section"
        " of the configuration, or run fewer jobs at once."
    ),
    signal.SIGTERM: "It was cancelled, or it reached its time limit.",
    **dict.fromkeys(
        (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL), _CRASHED
    ),
}
RESULTS = Path("results")  # of the folder in which Snakemake runs
# environment variable: id of the Snakemake process, which sets it when it reads the Snakefile
SNAKEMAKE = "TRUENEG_SNAKEMAKE"

log = logging.getLogger(__name__)


def _supervise(log_file: str | Path) -> None:
    """Fork: the child returns to do the work; the parent waits for it, reports a death by signal
    and exits with its status.
    """
    supervisor = os.getpid()
    awaited = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
    sys.stdout.flush()
    sys.stderr.flush()
    # the parent takes them one at a time, so that none is lost
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    child = os.fork()
    if child == 0:
        # a terminal's Ctrl-C reaches the child and its own processes once, through the parent
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        end_with(supervisor, "the supervisor of this job")
        return

    # the child has done this already, or has exited
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(child, child)
    ended = 0
    while not ended:
        number = signal.sigwait(awaited)
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, number)
        ended, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
        message = f"This job was killed by {name}. {_CAUSES.get(-code, '')}".strip()
        log.error(f"Error: {message}")
        print(f"\n{message} Log: {log_file}\n", file=sys.stderr, flush=True)
        code = 128 - code
    os._exit(code)  # the child has already run the atexit handlers


@contextlib.contextmanager
def job(
    log_file: str | Path, inputs: Iterable[str | Path] = (), outputs: Iterable[str | Path] = ()
) -> Iterator[None]:
    """Run the block in a child process with a log file; this process waits for it and exits with
    its status.

    The block starts only if the inputs match the checksums that were recorded when they were
    written, and those of the outputs are recorded when it has succeeded (:mod:`trueneg.io.seals`).

    A :class:`UserError` or out-of-memory error is reported in one sentence, and the job exits with
    status 1. If a signal kills the child, this is reported in the log and on stderr, and the exit
    status is 128 plus the signal's number. The child exits when this process or Snakemake does.
    """
    Path(log_file).parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log_file, mode="w", encoding="utf-8")
    handler.setFormatter(LegibleFormatter("%(asctime)s  %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
    logger = logging.getLogger("trueneg")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    _supervise(log_file)
    if SNAKEMAKE in os.environ:
        end_with(int(os.environ[SNAKEMAKE]), "Snakemake")
    sys.excepthook = print_traceback
    # The stream is open, because the handler was created without delay=True.
    stream: Any = handler.stream
    faulthandler.enable(stream)
    try:
        require_intact(RESULTS, inputs)
        yield
        seal(RESULTS, outputs)
    except BaseException as error:
        if not isinstance(error, UserError) and not is_out_of_memory(error):
            logger.exception("Error: the job failed")
            raise
        of_memory = OUT_OF_MEMORY if isinstance(error, MemoryError) else GPU_OUT_OF_MEMORY
        message = error if isinstance(error, UserError) else of_memory
        logger.error("Error: %s", message, exc_info=message is of_memory)
        print(
            f"\n{message}{f' Log: {log_file}' if message is of_memory else ''}\n",
            file=sys.stderr,
        )
        sys.exit(1)
    finally:
        faulthandler.disable()

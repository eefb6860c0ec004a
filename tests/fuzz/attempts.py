"""Run code on invalid input, and tell whether it ran, refused the input in sentences, or failed."""

import contextlib
import io
import logging
import resource
import signal
import traceback
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trueneg.errors import UserError, is_out_of_memory
from trueneg.legible import LegibleFormatter

# torch has no error class for sizes that exceed the CPU's memory; a job then shows its traceback.
TOO_LARGE = (
    "alloc_cpu",
    "not enough memory",
    "Storage size calculation",
    "integer multiplication overflow",
    "negative dimension",
)
RAN, REFUSED, FAILED = "ran", "refused", "failed"
SECONDS = 180  # maximum CPU time
MEMORY = 3 * 2**30  # maximum number of bytes beyond what the process uses already
LONGEST = 1500  # characters of a readable message


class Outcome(NamedTuple):
    """How an attempt ended: its kind, the message or traceback, and the value that it returned."""

    kind: str
    text: str = ""
    value: Any = None


class HungError(BaseException):
    """Raised after too much CPU time; no ``except Exception`` stops it."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Limit CPU time and memory."""

    def stop(*_: object) -> None:
        raise HungError

    previous = signal.signal(signal.SIGVTALRM, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def attempted(work: Callable[[], Any]) -> Outcome:
    """Call a function; a refusal is a :class:`~trueneg.errors.UserError` with a message in
    sentences, or out of memory.
    """
    printed, handler = io.StringIO(), logging.StreamHandler(io.StringIO())
    handler.setFormatter(LegibleFormatter())
    logger = logging.getLogger("trueneg")
    logger.addHandler(handler)
    try:
        with limited(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            outcome = Outcome(RAN, value=work())
    except UserError as error:
        sentences = all(
            line.rstrip().endswith((".", "?", ":")) and len(line) <= LONGEST
            for line in str(error).splitlines()
            if line
        )
        outcome = Outcome(REFUSED if sentences and str(error) else FAILED, str(error))
    except (Exception, SystemExit, HungError) as error:
        too_large = is_out_of_memory(error) or any(part in str(error) for part in TOO_LARGE)
        outcome = Outcome(REFUSED if too_large else FAILED, traceback.format_exc())
    finally:
        logger.removeHandler(handler)
    if control := unprintable(f"{printed.getvalue()}{handler.stream.getvalue()}{outcome.text}"):
        return Outcome(FAILED, f"prints control characters {control!r}")
    return outcome


def unprintable(text: str) -> str:
    """Return the characters of a text that could control a terminal or hide text."""
    return "".join(
        sorted(
            {
                each
                for each in text
                if not each.isprintable()
                and each not in "\n\t"
                and unicodedata.category(each) != "Zs"
            }
        )
    )

"""A piece of the program that gets hostile input, watched: does it run, refuse in sentences, or go wrong?"""

import contextlib
import io
import logging
import os
import resource
import signal
import sys
import tempfile
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trueneg.errors import UserError, is_out_of_memory
from trueneg.legible import LegibleFormatter
from trueneg.runtime.jobs import OUT_OF_MEMORY

# For a size that the CPU's memory cannot hold torch has no error of its own: a job shows its traceback.
TOO_LARGE = (
    "alloc_cpu",
    "not enough memory",
    "Storage size calculation",
    "integer multiplication overflow",
    "negative dimension",
)
RAN, REFUSED, WRONG = "ran", "refused", "WRONG"
SECONDS = 180  # of processor time: timing a few updates of the largest network takes 100
MEMORY = 3 * 2**30  # bytes beyond what the process has: more is what a huge number asked for
LONGEST = 1500  # characters of a sentence that one would still read

# Events, and where among their arguments is a path that changes, and the open folder that it may be relative to.
WRITING = {
    "os.mkdir": [(0, 2)],
    "os.remove": [(0, 1)],
    "os.rmdir": [(0, 1)],
    "os.rename": [(0, 2), (1, 3)],
    "os.symlink": [(1, 2)],
    "os.link": [(1, 3)],
    "os.chmod": [(0, 2)],
    "os.truncate": [(0, None)],
    "shutil.rmtree": [(0, None)],
}
RUNNING = ("pickle.find_class", "os.exec", "os.posix_spawn", "os.system", "socket.connect", "urllib.Request", "exec from input")


POOL = ("concurrent.futures.process", "trueneg.errors")  # modules of what a pool of our own processes sends back


@dataclass(frozen=True)
class Outcome:
    """How it ended, and what was said or went wrong."""

    kind: str
    said: str


class _Watch:
    """What the audit hook sees while a folder is set: a hook cannot be taken away, but it can be told to look aside."""

    folder: Path | None = None
    found: list[str]

    def __call__(self, event: str, arguments: tuple) -> None:
        if self.folder is None:
            return
        if event == "pickle.find_class" and arguments[0] in POOL:
            return
        if event in RUNNING:
            self.found.append(f"{event}{arguments!r}"[:300])
        elif event == "open" and isinstance(arguments[0], (str, bytes)) and _writes(arguments):
            self._outside(event, arguments[0])
        elif event in WRITING:
            for path, folder in WRITING[event]:
                opened = -1 if folder is None or folder >= len(arguments) else arguments[folder]
                if isinstance(arguments[path], (str, bytes, os.PathLike)):
                    self._outside(event, arguments[path], os.readlink(f"/proc/self/fd/{opened}") if opened >= 0 else "")

    def _outside(self, event: str, path: str | bytes, folder: str = "") -> None:
        place = Path(folder, os.fsdecode(path))
        # torch makes a folder for compiled code, in the folder for temporary files, as soon as an optimiser is made.
        if str(place).startswith(("/dev/", "/proc/")) or "__pycache__" in place.parts or place.name.startswith("torchinductor_"):
            return
        if not place.resolve().is_relative_to(self.folder):
            self.found.append(f"{event} writes {place}")


def _writes(arguments: tuple) -> bool:
    mode, flags = arguments[1], arguments[2]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


_WATCH = _Watch()
_installed = False


class HungError(BaseException):
    """Raised in what uses more processor time than it may; no ``except Exception`` stops it."""


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[list[str]]:
    """What the block writes outside a folder, unpickles, connects to or starts."""
    global _installed
    if not _installed:
        tempfile.gettempdir()  # tries at its first call whether it can write
        sys.addaudithook(_WATCH)
        _installed = True
    _WATCH.found, _WATCH.folder = [], folder.resolve()
    try:
        yield _WATCH.found
    finally:
        _WATCH.folder = None


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """An end to what takes too long or too much memory."""

    def stop(*_: object) -> None:
        raise HungError

    before = signal.signal(signal.SIGVTALRM, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def attempted(work: Callable[[], int | None], folder: Path) -> Outcome:
    """Do it, and tell how it ended.

    Args:
        work: returns nothing, or an exit code; a :class:`~trueneg.errors.UserError` is a refusal too.
        folder: nothing outside it may be written.
    """
    printed, logged = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logged)
    handler.setFormatter(LegibleFormatter())
    logger = logging.getLogger("trueneg")
    level = logger.level
    logger.setLevel(logging.INFO)  # as a job does
    logger.addHandler(handler)
    try:
        with (
            watched(folder) as misdeeds,
            limited(),
            contextlib.redirect_stdout(io.StringIO()) as shown,
            contextlib.redirect_stderr(printed),
        ):
            try:
                code = work()
            except UserError as error:
                code = 1
                print(error, file=printed)
            except Exception as error:
                if not is_out_of_memory(error) and not any(part in str(error) for part in TOO_LARGE):
                    raise
                code = 1
                print(OUT_OF_MEMORY, file=printed)
    except (Exception, SystemExit, HungError):
        return Outcome(WRONG, traceback.format_exc())
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    if misdeeds:
        return Outcome(WRONG, "; ".join(misdeeds))
    for text in (shown.getvalue(), logged.getvalue(), printed.getvalue()):
        if control := unprintable(text):
            return Outcome(WRONG, f"prints control characters {control!r}: {text!r}"[:2000])
    if not code:
        return Outcome(RAN, shown.getvalue())
    said = printed.getvalue()
    unclear = [line for line in said.splitlines() if line.strip() and not _sentence(line)]
    return Outcome(WRONG, f"says: {said[:3000]}") if unclear or not said.strip() else Outcome(REFUSED, said)


def unprintable(text: str) -> str:
    """The characters that could steer a terminal or hide text."""
    return "".join(
        sorted({one for one in text if not one.isprintable() and one not in "\n\t" and unicodedata.category(one) != "Zs"})
    )


def _sentence(line: str) -> bool:
    return line.rstrip().endswith((".", "?", ":")) and "Traceback" not in line and len(line) <= LONGEST


def counted(outcomes: dict[str, list[Outcome]]) -> str:
    """A table of how many inputs of each kind ran, were refused, or went wrong."""
    lines = [f"{'':34}{'inputs':>8}{RAN:>8}{REFUSED:>9}{WRONG:>7}"]
    total: Counter[str] = Counter()
    for kind, found in sorted(outcomes.items()):
        counts = Counter(outcome.kind for outcome in found)
        total += counts
        lines.append(f"{kind:34}{len(found):>8}{counts[RAN]:>8}{counts[REFUSED]:>9}{counts[WRONG]:>7}")
    return "\n".join([*lines, f"{'all':34}{total.total():>8}{total[RAN]:>8}{total[REFUSED]:>9}{total[WRONG]:>7}"])

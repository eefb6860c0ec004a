"""Report several errors in files at once, and convert library exceptions caused by damaged files."""

import contextlib
import csv
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from trueneg.errors import UserError

SHOWN = 10  # maximum number of errors shown
# Exceptions that csv, gzip, json and pyarrow raise for files that are damaged or have an unexpected layout.
DAMAGE = (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error, ValueError, KeyError, TypeError, OverflowError)
COPY_AGAIN = "Download or copy it again."


def refuse(mistakes: Sequence[str]) -> None:
    """Raise an error with the first ten messages and the number of further ones; do nothing if there are no messages.

    Raises:
        UserError: if `mistakes` is not empty.

    Example:
        >>> refuse([])
        >>> refuse([f"a.csv, line {line}: image is empty; expected a file name." for line in range(2, 14)])
        Traceback (most recent call last):
        ...
        trueneg.errors.UserError: a.csv, line 2: image is empty; expected a file name.
        ...
        … and 2 more errors.
    """
    if mistakes:
        more = [f"… and {len(mistakes) - SHOWN:,} more errors."] if len(mistakes) > SHOWN else []
        raise UserError("\n".join([*mistakes[:SHOWN], *more]))


def reason(error: BaseException) -> str:
    """Return the type and message of an exception on one short line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:120].rstrip(".")


@contextlib.contextmanager
def readable(path: Path, expected: str, remedy: str) -> Iterator[None]:
    """Convert exceptions that the block raises for a damaged file into an error that names the file.

    Raises:
        UserError: if the block fails to read the file.
    """
    try:
        yield
    except DAMAGE as error:
        raise UserError(f"{path}: cannot be read as {expected} ({reason(error)}). {remedy}") from error


@contextlib.contextmanager
def intact(path: str | Path, expected: str, *, beside: Path | None = None) -> Iterator[None]:
    """Convert any exception raised while the block reads a pipeline file into an error that names the file.

    Args:
        path: path of the file.
        expected: description of the file, for the message.
        beside: a file that must be regenerated together with it.

    Raises:
        UserError: if the file is missing, or the block fails to read it.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: does not exist; expected a {expected}; run the step that writes it.")
    try:
        yield
    except (MemoryError, UserError):  # unrelated to the file
        raise
    except Exception as error:  # a damaged file can raise nearly anything
        remedy = f"Remove it{'' if beside is None else f' and {beside}'}, then run the same command again."
        raise UserError(f"{path} is not a readable {expected} ({reason(error)}). {remedy}") from error

"""Report several errors in files at once."""

import csv
import zlib
from collections.abc import Sequence

import pyarrow as pa

from trueneg.errors import UserError

SHOWN = 10  # maximum number of errors shown
# Exceptions that csv, gzip, json and pyarrow raise for files that are damaged or have an unexpected layout.
DAMAGE = (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error, ValueError, KeyError, TypeError, OverflowError)
COPY_AGAIN = "Download or copy it again."
REMOVE = "Remove it, then run the same command again."


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

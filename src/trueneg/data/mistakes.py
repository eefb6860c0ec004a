"""Report several errors in files at once."""

import csv
import zlib
from collections.abc import Sequence

import pyarrow as pa

from trueneg.errors import UserError

# Exceptions that csv, gzip, json and pyarrow raise for files that are damaged or have an unexpected
# layout.
DAMAGE = (
    pa.ArrowException,
    OSError,
    EOFError,
    zlib.error,
    csv.Error,
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
)
COPY_AGAIN = "Download or copy it again."
REMOVE = "Remove it, then run the same command again."


def refuse(*kinds: Sequence[str], shown: int = 10) -> None:
    """Raise an error with the first messages of each kind and the number of further ones; do
    nothing if there are no messages.

    Args:
        kinds: the messages, or those of each kind, so that many errors of one kind do not hide the
            others.
        shown: maximum number of messages of each kind.

    Raises:
        UserError: if there is a message.

    Example:
        >>> refuse([])
        >>> refuse(
        ...     [
        ...         f"a.csv, line {line}: image is empty; expected a file name."
        ...         for line in range(2, 14)
        ...     ]
        ... )
        Traceback (most recent call last):
        ...
        trueneg.errors.UserError: a.csv, line 2: image is empty; expected a file name.
        ...
        … and 2 more errors.
        >>> refuse(
        ...     [f"{name}.png is damaged." for name in "abcd"], ["e.txt is not an image."], shown=2
        ... )
        Traceback (most recent call last):
        ...
        trueneg.errors.UserError: a.png is damaged.
        b.png is damaged.
        … and 2 more like these.
        e.txt is not an image.
    """
    lines: list[str] = []
    for messages in kinds:
        lines += messages[:shown]
        if len(messages) > shown:
            lines.append(
                f"… and {len(messages) - shown:,} more"
                f" {'errors' if len(kinds) == 1 else 'like these'}."
            )
    if lines:
        raise UserError("\n".join(lines))

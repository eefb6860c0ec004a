"""Text that others wrote, made harmless for a terminal, a log or a table."""

import logging
import re
import sys
import traceback
import unicodedata
from types import TracebackType

LONGEST = 1000  # characters of a line that one still reads


def legible(text: str) -> str:
    r"""Text whose control characters are told and not obeyed, line by line.

    A sentence from a report, a file's name or a value of a configuration may hold what steers a terminal, hides what follows or
    looks like a line of its own.

    Args:
        text: any; line breaks stay.

    Example:
        >>> print(legible("title is '\x1b[31mred\u202e'."))
        title is '\x1b[31mred\u202e'.
    """
    return "\n".join(line if line.isprintable() else "".join(map(_told, line)) for line in text.split("\n"))


def shortened(text: str) -> str:
    """Text whose very long lines lack their middle.

    Example:
        >>> len(shortened("long " * 20_000))
        1000
    """
    kept = (LONGEST - 3) // 2
    lines = text.split("\n")
    return "\n".join(line if len(line) <= LONGEST else f"{line[:kept]} … {line[kept - LONGEST + 3 :]}" for line in lines)


def escape_control_characters(text: str) -> str:
    r"""Text that stays on one line, for a cell of a table: as :func:`legible`, line breaks made spaces.

    Example:
        >>> escape_control_characters("Heart size\n is normal.\x00")
        'Heart size is normal.\\x00'
    """
    return "".join(map(_told, re.sub(r"\s*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]\s*", " ", text)))


class LegibleFormatter(logging.Formatter):
    """Escapes control characters of a whole log entry, its traceback included; its further lines are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The entry's text."""
        return legible(super().format(record)).replace("\n", "\n    ")


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Replaces ``sys.excepthook`` and escapes control characters, because libraries quote file contents.

    Args:
        kind, error, trace: of the exception.
    """
    print(legible("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)


def _told(character: str) -> str:
    if character.isprintable() or character == "\t" or unicodedata.category(character) == "Zs":
        return character
    # Lone halves of surrogate pairs too, which no file can be written with.
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")

"""Make text from external sources safe to print in a terminal, a log or a table."""

import logging
import re
import sys
import traceback
import unicodedata
from types import TracebackType

LONGEST = 1000  # characters per line; longer lines are shortened


def legible(text: str) -> str:
    r"""Escape control characters line by line, so that a terminal prints them instead of
    interpreting them.

    A sentence from a report, a file name or a configuration value may contain characters that
    control the terminal, hide the text that follows, or imitate a new line.

    Args:
        text: any text; line breaks are kept.

    Example:
        >>> print(legible("title is '\x1b[31mred\u202e'."))
        title is '\x1b[31mred\u202e'.
    """
    return "\n".join(
        line if line.isprintable() else "".join(map(_escaped, line)) for line in text.split("\n")
    )


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    Example:
        >>> counted(1, "run"), counted(2_000, "run")
        ('1 run', '2,000 runs')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def shortened(text: str) -> str:
    """Replace the middle of very long lines with an ellipsis.

    Example:
        >>> len(shortened("long " * 20_000))
        1000
    """
    kept = (LONGEST - 3) // 2
    lines = text.split("\n")
    return "\n".join(
        line if len(line) <= LONGEST else f"{line[:kept]} … {line[kept - LONGEST + 3 :]}"
        for line in lines
    )


def duration(seconds: float) -> str:
    """Format a duration."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def escape_control_characters(text: str) -> str:
    r"""Return text on one line, for a table cell: like :func:`legible`, with line breaks replaced
    by spaces.

    Example:
        >>> escape_control_characters("Heart size\n is normal.\x00")
        'Heart size is normal.\\x00'
    """
    return "".join(map(_escaped, re.sub(r"\s*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]\s*", " ", text)))


class LegibleFormatter(logging.Formatter):
    """Escape control characters in a whole log entry, including its traceback, and indent
    continuation lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted text of a log entry."""
        return legible(super().format(record)).replace("\n", "\n    ")


def print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a traceback with control characters escaped; replaces ``sys.excepthook``, because
    libraries quote file contents.

    Args:
        kind, error, trace: type, value and traceback of the exception.
    """
    print(legible("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)


def _escaped(character: str) -> str:
    # The non-joiner of Persian and the joiner of emoji are parts of words.
    if (
        character.isprintable()
        or character in "\t\u200c\u200d"
        or unicodedata.category(character) == "Zs"
    ):
        return character
    # This also escapes lone surrogates, which cannot be written to a file.
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")

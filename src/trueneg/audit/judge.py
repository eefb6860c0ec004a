"""Opinions of a command of the user's, such as a language model, on pairs that nobody has rated."""

import json
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pandas import Index, Series

from trueneg.errors import UserError

EXAMPLE = 100  # characters of a wrong line
EXPECTED = '{"pair": NUMBER, "false": true or false} for each pair that it reads'


def opinions_of(command: str, path: Path, pairs: Iterable[int]) -> Series:
    """Ask a command which negatives are false.

    Args:
        command: the command with its arguments. It reads JSON lines with ``pair``, ``anchor``,
            ``positive`` and ``negative``, and writes JSON lines with ``pair`` and ``false``; its
            messages on stderr are shown.
        path: JSON lines to read.
        pairs: the pairs in them.

    Returns:
        Whether it calls the negative false (bool), by pair.

    Raises:
        UserError: if the command cannot be run or fails, writes anything else, or misses a pair.
    """
    wanted = Index(sorted(pairs))
    try:
        with path.open("rb") as stream:
            done = subprocess.run(shlex.split(command), stdin=stream, stdout=subprocess.PIPE)
    except (OSError, ValueError) as error:
        raise UserError(f"--judge is {command}, which cannot be run: {error}.") from error
    if done.returncode:
        raise UserError(
            f"--judge is {command}, which failed with exit code {done.returncode}; expected 0."
        )
    opinions: dict[int, bool] = {}
    for number, line in enumerate(done.stdout.decode(errors="replace").split("\n"), 1):
        if not line.strip():
            continue
        pair, is_false = _answer(line)
        if pair not in wanted or pair in opinions or not isinstance(is_false, bool):
            raise UserError(
                f"--judge is {command}, whose output has {line[:EXAMPLE]!r} in line {number};"
                f" expected {EXPECTED}, once."
            )
        opinions[pair] = is_false
    lacking = wanted.difference(Index(opinions))
    if len(lacking):
        raise UserError(
            f"--judge is {command}, whose output lacks {len(lacking):,} of {len(wanted):,} pairs,"
            f" such as pair {lacking[0]}; expected {EXPECTED}."
        )
    return Series(opinions, dtype=bool)


def _answer(line: str) -> tuple[Any, Any]:
    """Return the number and the opinion in a line; None if it has none."""
    try:
        answer = json.loads(line)
    except ValueError:
        return None, None
    if not isinstance(answer, dict) or not isinstance(answer.get("pair"), int):
        return None, None
    return answer["pair"], answer.get("false")

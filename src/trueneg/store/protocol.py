"""The protocol of a study: a file, committed to git before the runs, that names its comparisons."""

import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from trueneg.errors import UserError
from trueneg.io.files import file_checksum

EXPECTED = "expected a file committed to git"


def committed_protocol(study: str, path: str | None) -> dict[str, str] | None:
    """Return the protocol's ``file``, its ``checksum`` (SHA-256), and the last ``commit`` that changed it with its ``date``.

    Args:
        study: name of the study, for messages.
        path: the study's setting ``protocol``; None: no protocol.

    Raises:
        UserError: if the file is missing, is not committed, or differs from the committed version.
    """
    if path is None:
        return None
    key, file = f"{study}.protocol is {path}", Path(path).resolve()
    if not file.is_file():
        raise UserError(f"{key}, which does not exist; {EXPECTED}.")
    try:
        changes, last = _git(file, "status", "--porcelain"), _git(file, "log", "-1", "--format=%H %cI")
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[0]
        raise UserError(
            f"{key}, which git cannot read ({reason}); {EXPECTED}. Remove the key if there is no protocol."
        ) from error
    if not last:
        raise UserError(f"{key}, which is not committed; {EXPECTED}. Commit it before the first run.")
    if changes:
        raise UserError(f"{key}, which differs from the committed version; {EXPECTED}. Commit or undo the changes.")
    commit, date = last.split()
    return {"file": path, "checksum": file_checksum(file), "commit": commit, "date": date}


def _git(file: Path, *command: str) -> str:
    options = ("--no-optional-locks", "--literal-pathspecs", "-C", str(file.parent))
    done = ["git", *options, *command, "--", file.name]
    return subprocess.run(done, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


def precedes(protocol: Mapping[str, str], runs: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the protocol was committed before the first run finished, given the records of the runs."""
    committed = datetime.fromisoformat(protocol["date"])
    return all(committed < datetime.strptime(run["finished"], "%Y-%m-%d %H:%M:%S %z") for run in runs)

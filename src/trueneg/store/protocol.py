"""The protocol of a study: a file, committed to git before the runs, that names its comparisons."""

import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from trueneg.errors import UserError
from trueneg.io.files import file_checksum
from trueneg.io.reading import reading
from trueneg.store.archive import SUFFIX, read_description
from trueneg.store.records import Protocol, Record

EXPECTED = "expected a file committed to git"
CHECKOUT = Path(__file__).resolve().parents[3]  # if the package is used from a checkout
PROTOCOL = "protocol.json"  # below results/<study>; an import writes it


def committed_protocol(
    study: str, path: str | None, results: Path = Path("results"), checkout: Path = CHECKOUT
) -> dict[str, str | None] | None:
    """Return the study's :class:`Protocol` as plain values.

    The commit and the date are those stored with imported results or in the evidence, else those of
    git. Without git, as in an unpacked archive of the source, they are None.

    Args:
        study: name of the study.
        path: the study's setting ``protocol``, in the working directory or else in the checkout;
            None: no protocol.
        results: the results folder.
        checkout: the folder of the Snakefile, with the archives of studies in ``evidence``.

    Raises:
        UserError: if the file is missing, is not committed, or differs from the committed or the
            stored version.
    """
    if path is None:
        return None
    folders = [Path.cwd(), *({checkout.resolve()} - {Path.cwd()})]
    key, files = f"{study}.protocol is {path}", [(folder / path).resolve() for folder in folders]
    file = next(filter(Path.is_file, files), None)
    if file is None:
        raise UserError(f"{key}, but there is no file {' or '.join(map(str, files))}; {EXPECTED}.")
    checksum = file_checksum(file)
    stored = _stored(results / study / PROTOCOL)
    for folder in folders:
        stored = stored or _archived(folder / f"evidence/{study}{SUFFIX}")
    if stored:
        place, protocol = stored
        if protocol.checksum != checksum:
            raise UserError(
                f"{key}, which is frozen because there are runs: its SHA-256 is {checksum[:12]}…,"
                f" expected {protocol.checksum[:12]}… as in {place}. Restore the file, or give the"
                " new protocol and the study another name."
            )
        return {**protocol.model_dump(), "file": path}
    uncommitted = {"file": path, "checksum": checksum, "commit": None, "date": None}
    if not any((folder / ".git").exists() for folder in file.parents):
        return uncommitted
    try:
        changes = _git(file, "status", "--porcelain")
        last = _git(file, "log", "-1", "--format=%H %cI")
    except FileNotFoundError:  # there is no git program
        return uncommitted
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[0]
        raise UserError(
            f"{key}, which git cannot read ({reason}); {EXPECTED}. Remove the key if there is no"
            " protocol."
        ) from error
    if not last:
        raise UserError(
            f"{key}, which is not committed; {EXPECTED}. Commit it before the first run."
        )
    if changes:
        raise UserError(
            f"{key}, which differs from the committed version; {EXPECTED}. Commit or undo the"
            " changes."
        )
    commit, date = last.split()
    return uncommitted | {"commit": commit, "date": date}


def _stored(path: Path) -> tuple[Path, Protocol] | None:
    """Return the protocol in a JSON file, and the file; None if there is none."""
    if not path.is_file():
        return None
    with reading(path, "JSON with a protocol", "Restore the file, or import the archive again."):
        return path, Protocol.model_validate_json(path.read_bytes())


def _archived(path: Path) -> tuple[Path, Protocol] | None:
    """Return the protocol in an archive, and the archive; None if there is none."""
    protocol = read_description(path).protocol if path.is_file() else None
    return None if protocol is None else (path, protocol)


def _git(file: Path, *command: str) -> str:
    options = ("--no-optional-locks", "--literal-pathspecs", "-C", str(file.parent))
    done = ["git", *options, *command, "--", file.name]
    return subprocess.run(
        done, capture_output=True, text=True, timeout=30, check=True
    ).stdout.strip()


def precedes(protocol: Mapping[str, str | None], runs: Sequence[Record]) -> bool | None:
    """Return whether the protocol was committed before the first run finished, given the records of
    the runs; None: not known.
    """
    if protocol["date"] is None:
        return None
    committed = datetime.fromisoformat(protocol["date"])
    return all(
        committed < datetime.strptime(run["finished"], "%Y-%m-%d %H:%M:%S %z") for run in runs
    )

"""Atomic file writes, where readers see a complete file or none, and checksums."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trueneg.errors import UserError

# Disk errors that a user can fix.
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space on its disk or of your quota"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "get permission to write to its folder"),
    errno.EROFS: "choose a folder on a disk that can be written",
    errno.EFBIG: "raise the limit on a file's size (ulimit -f)",
}


class UserFiles(NamedTuple):
    """User files that a source reads; some may not exist.

    Attributes:
        files: tables, archives and parquet files.
        images: image files that are named in a table or found in the source's image folder.
    """

    files: Sequence[Path] = ()
    images: Sequence[Path] = ()


def files_in(folder: Path | None) -> list[Path]:
    """List the non-hidden files in a folder; empty if no folder is given."""
    if folder is None:
        return []
    with os.scandir(folder) as entries:
        return [Path(entry) for entry in entries if entry.is_file() and not entry.name.startswith(".")]


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success the file is flushed to disk and renamed, otherwise removed.

    Raises:
        UserError: if the disk is full, or the folder is not writable.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def writable(path: str | Path) -> Iterator[None]:
    """Report a full disk or missing permission to write `path` as a user error.

    Raises:
        UserError: names the file, the cause and the remedy.
    """
    path = Path(path)
    try:
        yield
    except OSError as error:
        named = Path(error.filename) if isinstance(error.filename, str) else path
        if error.errno not in _REMEDIES or (named.parent != path.parent and named not in path.parents):  # a read error
            raise
        found, remedy = os.strerror(error.errno), _REMEDIES[error.errno]
        raise UserError(f"{path}: cannot be written ({found}); {remedy} and start again: finished work is kept.") from error


def file_checksum(path: str | Path) -> str:
    """Return the SHA-256 checksum of a file in hexadecimal."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

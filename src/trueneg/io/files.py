"""Checksums, and atomic file writes: readers see either a complete file or none."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trueneg.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

# Disk errors that a user can fix.
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space on this disk or in your quota"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "get write permission for its folder"),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "choose a folder that is not below a file"),
    errno.EROFS: "choose a folder on a writable disk",
    errno.EFBIG: "raise the file-size limit (ulimit -f)",
}


class UserFiles(NamedTuple):
    """The user's files that a source reads; some of them may not exist.

    Attributes:
        files: tables, archives and parquet files.
        images: image files that a table names or that are in the image folder of the source.
    """

    files: Sequence[Path] = ()
    images: Sequence[Path] = ()


def files_in(folder: Path | None) -> list[Path]:
    """List the non-hidden files in a folder; empty if no folder is given."""
    if folder is None:
        return []
    with os.scandir(folder) as entries:
        return [
            Path(entry) for entry in entries if entry.is_file() and not entry.name.startswith(".")
        ]


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; if the block succeeds, flush and rename it to `path`,
    else remove it.

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
    """Turn a full disk or missing permission to write `path` into a user error.

    Raises:
        UserError: if the block raises such an error; the message contains the file, the cause and
            the remedy.
    """
    path = Path(path)
    try:
        yield
    except OSError as error:
        named = Path(error.filename) if isinstance(error.filename, str) else path
        # a read error
        if error.errno not in _REMEDIES or (
            named.parent != path.parent and named not in path.parents
        ):
            raise
        problem = os.strerror(error.errno)
        remedy = _REMEDIES[error.errno]
        raise UserError(
            f"cannot write {path} ({problem}). Finished work is kept: {remedy}, then try again."
        ) from error


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def write_tables(tables: Mapping[str | Path, "pd.DataFrame"]) -> None:
    """Write each table atomically as a parquet file; the keys are the paths."""
    for path, table in tables.items():
        with atomic_write(path) as temporary:
            table.to_parquet(temporary, index=False)


def file_checksum(path: str | Path) -> str:
    """Return the SHA-256 checksum of a file in hexadecimal."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

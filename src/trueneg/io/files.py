"""Files that readers see whole or not at all, and their checksums."""

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trueneg.errors import UserError

# What a user can mend, with the remedy; a library of another language tells the number in words.
_DISK = {
    errno.ENOSPC: "free some space on its disk",
    errno.EDQUOT: "free some of your quota",
    errno.EFBIG: "raise the limit on a file's size (ulimit -f)",
    errno.EROFS: "choose a folder on a disk that can be written",
    errno.EACCES: "have its folder made writable for you",
    errno.EPERM: "have its folder made writable for you",
}


class UserFiles(NamedTuple):
    """The user's own files that a source is read from; some may not exist.

    Attributes:
        files: tables, archives and parquet files.
        images: the image files that a table names, or that lie in the source's folder of images.
    """

    files: Sequence[Path] = ()
    images: Sequence[Path] = ()


def files_in(folder: Path | None) -> list[Path]:
    """Non-hidden files in a folder; none if no folder is given."""
    if folder is None:
        return []
    with os.scandir(folder) as entries:
        return [Path(entry) for entry in entries if entry.is_file() and not entry.name.startswith(".")]


@contextlib.contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and vanishes if not.

    Raises:
        UserError: if the disk is full, or the folder may not be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def writable(path: str | Path) -> Iterator[None]:
    """What a full disk or a folder that may not be written makes the block raise, as a sentence about `path`.

    Raises:
        UserError: telling what to do.
    """
    try:
        yield
    except Exception as error:
        number = _disk_error(error, Path(path))
        if number is None:
            raise
        raise UserError(
            f"{path}: cannot be written ({os.strerror(number)}); {_DISK[number]} and start again: what is finished is kept."
        ) from error


def _disk_error(error: Exception, path: Path) -> int | None:
    named = getattr(error, "filename", None)
    if isinstance(named, str) and Path(named).parent != path.parent and Path(named) not in path.parents:
        return None  # of another file, which was to be read
    if re.search(r"^\d+ requested and \d+ written", str(error)):  # NumPy, of a disk that has become full
        return errno.ENOSPC
    told = re.search(r"\(os error (\d+)\)", str(error))  # as Rust says it, and so safetensors
    number = error.errno if isinstance(error, OSError) else int(told[1]) if told else None
    return number if number in _DISK else None


def file_checksum(path: str | Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

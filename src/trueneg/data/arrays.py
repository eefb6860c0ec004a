"""Type checks, checksums and .npz files for the arrays of a source."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.io.files import atomic_write


def require_types(source: Any, expected: Mapping[str, tuple[str, int]]) -> None:
    """Check that arrays of a source have the expected type, the expected number of axes and one row per image.

    Raises:
        ValueError: names the first array that does not match.
    """
    count = len(source.images)
    for name, (dtype, axes) in expected.items():
        array = getattr(source, name)
        if not array.dtype.name.startswith(dtype) or array.ndim != axes or len(array) != count:
            shown = f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"{name} are {shown}; expected {dtype} with {axes} axes and {count} rows, one for each image")


def content_hash(*arrays: np.ndarray) -> Any:
    """Return a SHA-256 hash object over the types, shapes and values of the arrays; it can be updated further."""
    digest = hashlib.sha256()
    for array in arrays:
        # Include type and shape: the same bytes with another shape are different content.
        digest.update(f"{array.dtype.name} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest


def write_arrays(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write an uncompressed .npz file atomically."""
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)


def open_arrays(path: str | Path) -> np.lib.npyio.NpzFile:
    """Open an .npz file; the checksum of each array is verified when the array is read."""
    with Path(path).open("rb") as stream:
        if not zipfile.is_zipfile(stream):
            raise ValueError("not an .npz archive, or its end is missing")
    return np.load(path, allow_pickle=False)


def require_checksum(checksum: str, archive: np.lib.npyio.NpzFile) -> None:
    """Check that the checksum of the content read matches the checksum stored in the archive."""
    expected = str(archive["checksum"])
    if checksum != expected:
        raise ValueError(f"the content has checksum {checksum[:6]}…; expected {expected[:6]}…: it is damaged")

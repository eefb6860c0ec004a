"""Arrays of a source: their types, their checksum, and the .npz files that they are written to."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.io.files import atomic_write


def require_types(source: Any, expected: Mapping[str, tuple[str, int]]) -> None:
    """Require of some arrays of a source a type, a number of axes, and as many rows as there are images.

    Raises:
        ValueError: naming the first that is another.
    """
    count = len(source.images)
    for name, (dtype, axes) in expected.items():
        array = getattr(source, name)
        if not array.dtype.name.startswith(dtype) or array.ndim != axes or len(array) != count:
            found = f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"{name} are {found}, expected {dtype} with {axes} axes and {count} rows, one for each image")


def content_hash(*arrays: np.ndarray) -> Any:
    """SHA-256 of the types, shapes and values of arrays, to be updated or read."""
    digest = hashlib.sha256()
    for array in arrays:
        # Type and shape too: the same bytes cut into other images are other content.
        digest.update(f"{array.dtype.name} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest


def write_arrays(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write an uncompressed .npz file, whole or not at all."""
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)


def open_arrays(path: str | Path) -> np.lib.npyio.NpzFile:
    """An .npz file, whose checksums are compared as it is read."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no .npz archive, or its end is missing")
    return np.load(path, allow_pickle=False)


def require_checksum(found: str, archive: np.lib.npyio.NpzFile) -> None:
    """Compare the checksum of what was read with the one that was written."""
    expected = str(archive["checksum"])
    if found != expected:
        raise ValueError(f"its content has checksum {found[:6]}…, expected {expected[:6]}…: it is damaged")

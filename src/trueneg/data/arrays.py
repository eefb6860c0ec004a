"""Type checks, checksums and .npz files for the arrays of a source, and arrays that a killed job
resumes to fill.
"""

import contextlib
import hashlib
import json
import logging
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from tqdm import tqdm

from trueneg.data.mistakes import REMOVE
from trueneg.io.files import atomic_write, writable, write_text
from trueneg.io.reading import RUN_STEP, reading

# height and width of what stands in for the pixels of an undecoded image
DIGEST = (1, 32)

log = logging.getLogger(__name__)


def require_types(source: Any, expected: Mapping[str, tuple[str, int]]) -> None:
    """Check that arrays of a source have the expected type, the expected number of axes and one row
    per image.

    Raises:
        ValueError: names the first array that does not match.
    """
    count = len(source.images)
    for name, (dtype, axes) in expected.items():
        array = getattr(source, name)
        if not array.dtype.name.startswith(dtype) or array.ndim != axes or len(array) != count:
            raise ValueError(
                f"{name} are {array.dtype} of shape {array.shape}; expected {dtype} with {axes}"
                f" axes and {count} rows, one for each image"
            )


def content_hash(*arrays: ndarray) -> Any:
    """Return a SHA-256 hash object over the types, shapes and values of the arrays; it can be
    updated further.
    """
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


@contextlib.contextmanager
def read_arrays(
    path: str | Path, what: str, remedy: str = REMOVE
) -> Iterator[np.lib.npyio.NpzFile]:
    """Open an .npz file that a job wrote; the checksum of each array is verified when the array is
    read.

    Args:
        path: the file.
        what: description of its content, with its article.
        remedy: a sentence that tells the user how to replace a damaged file.

    Raises:
        UserError: if the file is missing, or the block fails to read it.
    """
    with reading(path, what, remedy, missing=RUN_STEP):
        with Path(path).open("rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise ValueError("not an .npz archive, or its end is missing")
        with np.load(path, allow_pickle=False) as archive:
            yield archive


def mapped_array(path: str | Path, name: str) -> np.memmap:
    """Memory-map an array of an uncompressed .npz file, read-only.

    A compressed array has different bytes, which the checksum of the file's content detects.
    """
    with zipfile.ZipFile(path) as archive, Path(path).open("rb") as file:
        member = archive.getinfo(f"{name}.npy")
        # checks the member's header against the archive's directory
        with archive.open(member) as stream:
            np.lib.format.read_magic(stream)
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            header = stream.tell()
        # Read the lengths of the name and the extra field, which lie between the member's 30-byte
        # header and its data.
        file.seek(member.header_offset + 26)
        between = sum(struct.unpack("<HH", file.read(4)))
    return np.memmap(path, dtype, "r", member.header_offset + 30 + between + header, shape)


def resumed_array(
    folder: str | Path,
    made_of: Mapping[str, Any],
    count: int,
    compute: Callable[[slice], ndarray],
    at_once: int,
) -> ndarray:
    """Compute an array in pieces, in a file; a killed job resumes after its last finished piece,
    unless what is there has another checksum.

    Args:
        folder: folder of the file and of the progress.
        made_of: what determines the array; an array of anything else is replaced.
        count: number of rows.
        compute: returns the rows of a slice.
        at_once: rows per piece.

    Returns:
        The array, memory-mapped and read-only.
    """
    path = Path(folder, "values.npy")
    progress = Path(folder, "progress.json")
    state = {"done": 0, "checksum": 0, "made of": json.loads(json.dumps(made_of))}
    with contextlib.suppress(OSError, ValueError, KeyError):  # nothing to resume, or damaged
        before = json.loads(progress.read_text(encoding="utf-8"))
        values = np.load(path, mmap_mode="r")
        is_same = before["made of"] == state["made of"] and len(values) == count
        if is_same and zlib.crc32(values[: before["done"]].data) == before["checksum"]:
            state = before
    if state["done"]:
        log.info(
            f"{folder}: {state['done']:,} of {count:,} were computed by an earlier job",
        )
    for start in tqdm(range(state["done"], count, at_once), desc=Path(folder).name, disable=None):
        chosen = slice(start, min(start + at_once, count))
        part = np.ascontiguousarray(compute(chosen))
        with writable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not start:
                np.lib.format.open_memmap(path, "w+", part.dtype, (count, *part.shape[1:]))
            # not by the memory map, which a full disk would end with a signal
            with path.open("r+b") as stream:
                stream.seek(-(count - start) * part[0].nbytes, os.SEEK_END)
                stream.write(part.data)
                os.fsync(stream.fileno())
            state |= {"done": chosen.stop, "checksum": zlib.crc32(part.data, state["checksum"])}
            write_text(progress, json.dumps(state))
    return np.load(path, mmap_mode="r")


def require_checksum(checksum: str, archive: np.lib.npyio.NpzFile) -> None:
    """Check that the checksum of the content read matches the checksum stored in the archive."""
    expected = str(archive["checksum"])
    if checksum != expected:
        raise ValueError(
            f"the content has checksum {checksum[:6]}…; expected {expected[:6]}…: it is damaged"
        )


def size_of(images: ndarray) -> str:
    """Return the size of images, for messages; empty if digests replaced them."""
    is_decoded = images.shape[2:] != DIGEST
    return f" of {' × '.join(map(str, images.shape[1:]))} pixels" if is_decoded else ""

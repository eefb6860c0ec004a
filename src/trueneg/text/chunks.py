"""A table stored as a folder of files; rows are appended as whole files, so a killed job keeps the rows it has written."""

import hashlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from trueneg.text import privacy

FLUSH = 5.0  # seconds of work that a killed job can lose


def text_key(text: str) -> bytes:
    """Return the cache key of a text: the first 16 bytes of its SHA-256.

    Example:
        >>> text_key("Heart size is normal.").hex()[:8]
        '7889ee45'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def append_in_time(folder: Path, frames: Iterable[pd.DataFrame], restricted: bool) -> None:
    """Append frames as they are produced, with one file for each :data:`FLUSH` seconds."""
    waiting, began = [], time.monotonic()
    for frame in frames:
        waiting.append(frame)
        if time.monotonic() - began > FLUSH:
            append_chunk(folder, pd.concat(waiting), restricted)
            waiting, began = [], time.monotonic()
    if waiting:
        append_chunk(folder, pd.concat(waiting), restricted)


def append_chunk(folder: Path, frame: pd.DataFrame, restricted: bool) -> None:
    """Write rows with a ``key`` of bytes to a file named by their keys, so writing the same rows twice gives one file."""
    name = hashlib.sha256(b"".join(frame["key"])).hexdigest()[:24]
    privacy.write_table(frame, folder / f"{name}.parquet", restricted)


def read_chunks(folder: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return all rows indexed by key, without duplicate keys; an empty table if there are none."""
    found = [privacy.read_table(path, ["key", *columns])[0] for path in sorted(folder.glob("*.parquet"))]
    table = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["key", *columns], dtype=object)
    return table.drop_duplicates("key").set_index("key")

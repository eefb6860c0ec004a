"""A table that grows by whole files, so that a job that is killed keeps what it has appended."""

import hashlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from trueneg.text import privacy

FLUSH = 5.0  # seconds of work that a killed job may lose


def text_key(text: str) -> bytes:
    """What a text is known by in a cache: 16 bytes of its SHA-256.

    Example:
        >>> text_key("Heart size is normal.").hex()[:8]
        '7889ee45'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def append_in_time(folder: Path, frames: Iterable[pd.DataFrame], restricted: bool) -> None:
    """Append frames as they are made, those of every :data:`FLUSH` seconds as one file."""
    waiting, began = [], time.monotonic()
    for frame in frames:
        waiting.append(frame)
        if time.monotonic() - began > FLUSH:
            append_chunk(folder, pd.concat(waiting), restricted)
            waiting, began = [], time.monotonic()
    if waiting:
        append_chunk(folder, pd.concat(waiting), restricted)


def append_chunk(folder: Path, frame: pd.DataFrame, restricted: bool) -> None:
    """Add rows, whose ``key`` is bytes, as a file; its name comes from the keys, so the same rows written twice are one file."""
    name = hashlib.sha256(b"".join(frame["key"])).hexdigest()[:24]
    privacy.write_table(frame, folder / f"{name}.parquet", restricted)


def read_chunks(folder: Path, columns: Sequence[str]) -> pd.DataFrame:
    """All rows, each key once, indexed by key; empty if there are none."""
    found = [privacy.read_table(path, ["key", *columns])[0] for path in sorted(folder.glob("*.parquet"))]
    table = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["key", *columns], dtype=object)
    return table.drop_duplicates("key").set_index("key")

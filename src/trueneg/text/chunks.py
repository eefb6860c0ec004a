"""A table that grows by whole files, so that a job that is killed keeps what it has appended."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from trueneg.text import privacy


def text_key(text: str) -> bytes:
    """What a text is known by in a cache: 16 bytes of its SHA-256.

    Example:
        >>> text_key("Heart size is normal.").hex()[:8]
        '7889ee45'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def append_chunk(folder: Path, frame: pd.DataFrame, restricted: bool) -> None:
    """Add rows, whose ``key`` is bytes, as a file; its name comes from the keys, so the same rows written twice are one file."""
    name = hashlib.sha256(b"".join(frame["key"])).hexdigest()[:24]
    privacy.write_table(frame, folder / f"{name}.parquet", restricted)


def read_chunks(folder: Path, columns: Sequence[str]) -> pd.DataFrame:
    """All rows, each key once, indexed by key; empty if there are none."""
    found = [privacy.read_table(path, ["key", *columns])[0] for path in sorted(folder.glob("*.parquet"))]
    table = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["key", *columns], dtype=object)
    return table.drop_duplicates("key").set_index("key")

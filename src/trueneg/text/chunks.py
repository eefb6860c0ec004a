"""A cache of results keyed by text, stored as a folder of files; a killed job loses at most a few
seconds of work.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd
from pandas import DataFrame, Series

from trueneg.io import privacy

log = logging.getLogger(__name__)

# texts → result tables, in parts, indexed by text
Compute = Callable[[list[str]], Iterable[DataFrame]]
FLUSH = 5.0  # seconds of work that a killed job can lose


def text_key(text: str) -> bytes:
    """Return the cache key of a text: the first 16 bytes of its SHA-256.

    Example:
        >>> text_key("Heart size is normal.").hex()[:8]
        '7889ee45'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def cached(
    folder: Path, texts: Series, columns: Sequence[str], compute: Compute, restricted: bool
) -> DataFrame:
    """Return the results for `texts`, computing those that are not yet in the folder.

    Args:
        folder: folder of earlier results; created if it does not exist.
        texts: texts, possibly repeated.
        columns: names of the result columns.
        compute: function that yields the results for distinct texts.
        restricted: whether the texts are confidential.

    Returns:
        Table with `columns` and the index of `texts`.
    """
    add_missing(folder, texts, compute, restricted)
    keys = texts.map({text: text_key(text) for text in texts.unique()})
    return read_chunks(folder, columns).loc[keys].set_axis(texts.index)


def add_missing(folder: Path, texts: Series, compute: Compute, restricted: bool) -> None:
    """Compute and store the results missing from the folder, as in :func:`cached`; only the keys of
    stored results are read.
    """
    stored = set(read_chunks(folder, []).index)
    unique = texts.unique().tolist()
    missing = [text for text in unique if text_key(text) not in stored]
    log.info(f"{len(missing):,} new texts, {len(unique) - len(missing):,} in the cache")
    waiting = []
    began = time.monotonic()
    for frame in compute(missing) if missing else []:
        waiting.append(frame)
        if time.monotonic() - began > FLUSH:
            append_chunk(folder, pd.concat(waiting), restricted)
            waiting = []
            began = time.monotonic()
    if waiting:
        append_chunk(folder, pd.concat(waiting), restricted)


def append_chunk(folder: Path, frame: DataFrame, restricted: bool) -> None:
    """Write rows indexed by text to a file named after their keys, so writing the same rows twice
    gives one file.
    """
    frame = frame.assign(key=frame.index.map(text_key))
    name = hashlib.sha256(b"".join(frame["key"])).hexdigest()[:24]
    privacy.write_table(frame, folder / f"{name}.parquet", restricted)


def read_chunks(folder: Path, columns: Sequence[str]) -> DataFrame:
    """Return all rows indexed by key, without duplicate keys; an empty table if there are none."""
    columns = ["key", *columns]
    tables = [privacy.read_table(path, columns)[0] for path in sorted(folder.glob("*.parquet"))]
    if not tables:
        return DataFrame(columns=columns, dtype=object).set_index("key")
    return pd.concat(tables, ignore_index=True).drop_duplicates("key").set_index("key")

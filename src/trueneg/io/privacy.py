"""Restricted text: files derived from it are readable only by their owner and are flagged as
restricted.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trueneg.errors import UserError
from trueneg.io.files import atomic_write
from trueneg.io.reading import RUN_STEP, reading

FLAG = b"trueneg restricted"


@contextlib.contextmanager
def owner_only(restricted: bool) -> Iterator[None]:
    """If `restricted`, make files created in the block by this process or its children readable
    only by their owner.

    The umask applies to the whole process, so files that other threads write are private too, which
    is the safe choice.
    """
    before = os.umask(0o077) if restricted else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


def write_table(frame: pd.DataFrame, path: str | Path, restricted: bool) -> None:
    """Atomically write a table of text, or of data derived from text.

    Args:
        frame: the table; its index is dropped.
        path: parquet file to write.
        restricted: whether the text is confidential; stored in the file for later readers.
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), FLAG: b"yes" if restricted else b"no"}
    )
    with owner_only(restricted), atomic_write(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> tuple[pd.DataFrame, bool]:
    """Return a table or some of its columns, and whether it is restricted.

    Raises:
        UserError: if the file is missing, damaged, or was not written by :func:`write_table`.
    """
    with reading(
        path, "a complete parquet file", "Remove it; it will be written again.", missing=RUN_STEP
    ):
        # Without partitioning=None, a folder with a name of the form key=value would add a column.
        table = pq.read_table(
            path, columns=columns, partitioning=None, page_checksum_verification=True
        )
        frame = table.to_pandas()
    flag = (table.schema.metadata or {}).get(FLAG)
    if flag is None:
        raise UserError(
            f"{path} is not marked as restricted or unrestricted text. Remove it; it will be"
            " written again."
        )
    return frame, flag == b"yes"

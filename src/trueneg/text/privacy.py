"""Restricted text: the files made from it are readable by their owner alone, and say that they are restricted."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trueneg.errors import UserError
from trueneg.io.files import atomic_write

FLAG = b"trueneg restricted"


@contextlib.contextmanager
def owner_only(restricted: bool) -> Iterator[None]:
    """Whatever this process (and those that it starts) makes in the block is for its owner alone, if `restricted`.

    The mask is the process's, so a thread beside it writes private files too; that is the safe side.
    """
    if not restricted:
        yield
        return
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def write_table(frame: pd.DataFrame, path: str | Path, restricted: bool) -> None:
    """Write a table of text, or of what was made from text, whole or not at all.

    Args:
        frame: the table; its index is not kept.
        path: parquet file to write.
        restricted: whether the text may not be shown; kept in the file, for whoever reads it next.
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), FLAG: b"yes" if restricted else b"no"})
    with owner_only(restricted), atomic_write(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> tuple[pd.DataFrame, bool]:
    """A table, or some columns of it, and whether it is restricted.

    Raises:
        UserError: if the file is missing, damaged, or was not written by :func:`write_table`.
    """
    try:
        # A folder whose name looks like key=value would otherwise add a column.
        table = pq.read_table(path, columns=columns, partitioning=None, page_checksum_verification=True)
        frame = table.to_pandas()
    except FileNotFoundError as error:
        raise UserError(f"{path}: is not there; run the step that makes it.") from error
    except MemoryError:  # says nothing of the file
        raise
    except Exception as error:  # a damaged file can raise nearly anything
        raise UserError(f"{path}: is not a whole parquet file; remove it to have it made again.") from error
    flag = (table.schema.metadata or {}).get(FLAG)
    if flag is None:
        raise UserError(f"{path}: does not say whether its text is restricted; remove it to have it made again.")
    return frame, flag == b"yes"

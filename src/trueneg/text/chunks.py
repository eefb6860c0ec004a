"""A table that grows by whole files, so that a job that is killed keeps what it has appended."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trueneg.errors import UserError
from trueneg.io.files import written_whole
from trueneg.text.privacy import owner_only


def text_key(text: str) -> bytes:
    """What a text is known by in a cache: 16 bytes of its SHA-256.

    Example:
        >>> text_key("Heart size is normal.").hex()[:8]
        '7889ee45'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


class Chunks:
    """A folder of parquet files with the same columns, of which ``key`` is one.

    A chunk is on the disk, whole, when :meth:`append` returns. Its name comes from its keys: the same chunk written twice is one
    file, and several processes (one a device) may append to one folder.

    Args:
        folder: made with the first chunk.
        restricted: whether the chunks are for their owner alone.
    """

    def __init__(self, folder: str | Path, restricted: bool = False):
        self.folder, self._restricted = Path(folder), restricted

    def append(self, frame: pd.DataFrame) -> None:
        """Add rows; their ``key`` is bytes."""
        name = hashlib.sha256(b"".join(frame["key"])).hexdigest()[:24]
        with owner_only(self._restricted), written_whole(self.folder / f"{name}.parquet") as path:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            pq.write_table(table, path, compression="zstd", write_page_checksum=True)
            with path.open("rb") as stream:
                os.fsync(stream.fileno())

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        """All rows, each key once, indexed by key; empty if there are none.

        Args:
            columns: which to read besides the key.

        Raises:
            UserError: if a chunk is damaged.
        """
        found = []
        for path in sorted(self.folder.glob("*.parquet")):
            try:
                table = pq.read_table(path, columns=["key", *columns], partitioning=None, page_checksum_verification=True)
                found.append(table.to_pandas()[["key", *columns]])
            except MemoryError:  # says nothing of the file
                raise
            except Exception as error:  # a damaged file can raise nearly anything
                raise UserError(f"{path}: is damaged; remove it, and what it held is computed again.") from error
        if not found:
            return pd.DataFrame(columns=list(columns), index=pd.Index([], name="key", dtype=object))
        table = pd.concat(found, ignore_index=True).drop_duplicates("key")
        return table.set_index("key")

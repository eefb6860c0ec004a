"""Locations of encoded images (PNG, JPEG): files in a folder, or rows of parquet files.

Both classes represent an ordered sequence of n images and need little memory because images are read lazily. ``part`` selects
images, ``name`` returns the location of an image, ``stamps`` change when images are replaced, and ``read`` yields the content
of each image.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueneg.data.mistakes import readable, refuse

ROWS_AT_ONCE = 64  # bounds the encoded bytes in memory


@dataclass(frozen=True)
class ImageFiles:
    """Images stored in one file each.

    Args:
        paths: paths of the n files.
        remedy: advice to the user if files are missing.
    """

    paths: tuple[Path, ...]
    remedy: str = "Copy the whole data set, or point dataset.path at the folder that holds it."

    def __len__(self) -> int:
        return len(self.paths)

    def part(self, chosen: slice) -> "ImageFiles":
        """Return a slice of the images."""
        return replace(self, paths=self.paths[chosen])

    def name(self, position: int) -> str:
        """Return the location of an image, for messages."""
        return str(self.paths[position])

    def stamps(self) -> list[str]:
        """Return the name, size and modification time of each file.

        Raises:
            UserError: names the missing files.
        """
        found, missing = [], []
        for path in self.paths:
            try:
                found.append(_stamp(path))
            except OSError:
                missing.append(f"{path}: is missing, expected an image. {self.remedy}")
        refuse(missing)
        return found

    def read(self) -> Iterator[bytes | None]:
        """Yield the content of each file; None for a file that cannot be read, which is reported with all other errors."""
        for path in self.paths:
            try:
                content = path.read_bytes()
            except OSError:
                content = None
            yield content


@dataclass(frozen=True)
class ParquetImages:
    """Images stored in rows of parquet files, in a struct column with the field ``bytes`` (the layout of dataset hubs).

    Args:
        files: the parquet files.
        column: name of the image column.
        places: file number and row of each image; the rows of one file are consecutive.
    """

    files: tuple[Path, ...]
    column: str
    places: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.places)

    def part(self, chosen: slice) -> "ParquetImages":
        """Return a slice of the images."""
        return replace(self, places=self.places[chosen])

    def name(self, position: int) -> str:
        """Return the location of an image, for messages."""
        file, row = self.places[position]
        return f"{self.files[file]}, row {row:,} (the first is 0)"

    def stamps(self) -> list[str]:
        """Return the name, size and modification time of each image's file, with the image's row."""
        stamps = [_stamp(file) for file in self.files]
        return [f"{stamps[file]} {row}" for file, row in self.places]

    def read(self) -> Iterator[bytes | None]:
        """Yield the content of each image; None if its row is empty."""
        for number, file in enumerate(self.files):
            rows = [row for place, row in self.places if place == number]
            if rows:
                yield from self._rows(file, rows[0], rows[-1] + 1)

    def _rows(self, file: Path, first: int, end: int) -> Iterator[bytes | None]:
        again = "Download or copy it again."
        with readable(file, "images", again), pq.ParquetFile(file, page_checksum_verification=True) as rows:
            ends = np.cumsum([rows.metadata.row_group(group).num_rows for group in range(rows.num_row_groups)])
            skipped = int(np.searchsorted(ends, first, side="right"))  # row groups before the first row
            position = int(ends[skipped - 1]) if skipped else 0
            groups = range(skipped, rows.num_row_groups)
            for batch in rows.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=[f"{self.column}.bytes"]):
                contents = pc.struct_field(batch.column(self.column), "bytes")
                yield from contents[max(first - position, 0) : max(end - position, 0)].to_pylist()
                position += len(batch)
                if position >= end:
                    return


EncodedImages = ImageFiles | ParquetImages


def _stamp(file: Path) -> str:
    status = file.stat()
    return f"{file.name} {status.st_size} {status.st_mtime_ns}"

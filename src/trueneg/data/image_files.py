"""Where encoded images (PNG, JPEG) lie: files of a folder, or rows of parquet files.

Both kinds are n images in an order, and small, as nothing of them is read before it is asked for. ``part`` gives some of them,
``name`` says where one lies, ``stamps`` change when images are replaced, and ``read`` gives the content of each.
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
    """A file for each image.

    Args:
        paths: of n files.
        remedy: what a user can do where some are missing.
    """

    paths: tuple[Path, ...]
    remedy: str = "Copy the whole data set, or point dataset.path at the folder that holds it."

    def __len__(self) -> int:
        return len(self.paths)

    def part(self, chosen: slice) -> "ImageFiles":
        """Some of them, in order."""
        return replace(self, paths=self.paths[chosen])

    def name(self, position: int) -> str:
        """Where one lies, for a message."""
        return str(self.paths[position])

    def stamps(self) -> list[str]:
        """Name, size and time of each file.

        Raises:
            UserError: naming the files that are missing.
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
        """The content of each; None for a file that cannot be read, which is reported with all other mistakes."""
        for path in self.paths:
            try:
                content = path.read_bytes()
            except OSError:
                content = None
            yield content


@dataclass(frozen=True)
class ParquetImages:
    """Rows of parquet files, whose column is a struct with the field ``bytes``, as hubs lay images out.

    Args:
        files: the parquet files.
        column: of the images.
        places: of each image, the number of its file and its row there; of a file, consecutive rows.
    """

    files: tuple[Path, ...]
    column: str
    places: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.places)

    def part(self, chosen: slice) -> "ParquetImages":
        """Some of them, in order."""
        return replace(self, places=self.places[chosen])

    def name(self, position: int) -> str:
        """Where one lies, for a message."""
        file, row = self.places[position]
        return f"{self.files[file]}, row {row:,} (the first is 0)"

    def stamps(self) -> list[str]:
        """Name, size and time of each image's file, and its row."""
        stamps = [_stamp(file) for file in self.files]
        return [f"{stamps[file]} {row}" for file, row in self.places]

    def read(self) -> Iterator[bytes | None]:
        """The content of each; None where its row has none."""
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

"""Where encoded images (PNG, JPEG) lie: files of a folder, or rows of parquet files."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueneg.data.decoding import UnreadableImageError
from trueneg.data.mistakes import readable, refuse

ROWS_AT_ONCE = 64  # bounds the encoded bytes in memory


class EncodedImages(Protocol):
    """n images in an order; small to send to another process, as nothing of them is read before it is asked for."""

    def __len__(self) -> int: ...

    def part(self, chosen: slice) -> "EncodedImages":
        """Some of them, in order."""

    def name(self, position: int) -> str:
        """Where one lies, in words for a message."""

    def stamps(self) -> list[str]:
        """What changes when one is replaced: its place, and its file's size and time.

        Raises:
            UserError: naming the files that are not there.
        """

    def read(self) -> Iterator[bytes | UnreadableImageError | None]:
        """The content of each: None where its row has none, the error where its file cannot be read."""


@dataclass(frozen=True)
class ImageFiles:
    """A file each.

    Args:
        paths: of n files.
        remedy: what a user can do where some are missing.
    """

    paths: tuple[Path, ...]
    remedy: str = "Copy the whole data set, or point dataset.path at the folder that holds it."

    def __len__(self) -> int:
        return len(self.paths)

    def part(self, chosen: slice) -> "ImageFiles":
        return ImageFiles(self.paths[chosen], self.remedy)

    def name(self, position: int) -> str:
        return str(self.paths[position])

    def stamps(self) -> list[str]:
        found, missing = [], []
        for path in self.paths:
            try:
                status = path.stat()
                found.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
            except OSError:
                missing.append(f"{path}: is not there, expected an image. {self.remedy}")
        refuse(missing)
        return found

    def read(self) -> Iterator[bytes | UnreadableImageError]:
        for position, path in enumerate(self.paths):
            try:
                with path.open("rb", buffering=0) as stream:  # read in one piece anyway
                    content = stream.readall()
            except OSError as error:
                content = UnreadableImageError(position, f"cannot be read ({error.strerror})", "Make it a readable file.")
            yield content


@dataclass(frozen=True)
class ParquetImages:
    """Rows of parquet files, whose column is a struct with the field ``bytes``, as hubs lay images out.

    Args:
        files: the parquet files.
        column: of the images.
        places: of each image, the number of its file and its row there; in rising order, to be read in one go.
    """

    files: tuple[Path, ...]
    column: str
    places: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.places)

    def part(self, chosen: slice) -> "ParquetImages":
        return ParquetImages(self.files, self.column, self.places[chosen])

    def name(self, position: int) -> str:
        file, row = self.places[position]
        return f"{self.files[file]}, row {row:,} (the first is 0)"

    def stamps(self) -> list[str]:
        status = [file.stat() for file in self.files]
        return [f"{self.files[file].name} {status[file].st_size} {status[file].st_mtime_ns} {row}" for file, row in self.places]

    def read(self) -> Iterator[bytes | None]:
        for file, places in itertools.groupby(self.places, key=lambda place: place[0]):
            yield from self._rows(self.files[file], [row for _, row in places])

    def _rows(self, path: Path, rows: list[int]) -> Iterator[bytes | None]:
        again = "Download or copy it again."
        with readable(path, "images", again), pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
            starts = list(itertools.accumulate(sizes, initial=0))
            for group, start in enumerate(starts[:-1]):
                wanted = [row - start for row in rows if start <= row < starts[group + 1]]
                if wanted:
                    yield from self._of_group(parquet, group, wanted)

    def _of_group(self, parquet, group: int, wanted: list[int]) -> Iterator[bytes | None]:
        first, left = 0, iter(wanted)
        row = next(left)
        for batch in parquet.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=[f"{self.column}.bytes"]):
            content = pc.struct_field(batch.column(self.column), "bytes")
            while row is not None and row < first + len(batch):
                yield content[row - first].as_py()
                row = next(left, None)
            first += len(batch)
            if row is None:
                return

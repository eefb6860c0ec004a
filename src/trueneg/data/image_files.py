"""Locations of encoded images: files in a folder, or rows of parquet files.

Both classes have methods ``name``, which returns the location of an image, ``stamps``, which
returns strings that change when images are replaced, ``read``, which yields the content of each
image, and ``copy``, which copies some to a new folder in the same layout.
"""

import bisect
import functools
import hashlib
import itertools
import logging
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy import ndarray
from tqdm import tqdm

from trueneg.data.arrays import DIGEST
from trueneg.data.decoding import UnreadableImageError, decode_upright, inspect_image, map_images
from trueneg.data.mistakes import COPY_AGAIN, DAMAGE, refuse
from trueneg.data.skipping import Skipped
from trueneg.errors import UserError
from trueneg.io.reading import reason

Place = TypeVar("Place")

log = logging.getLogger(__name__)
ROWS_AT_ONCE = 64  # bounds the encoded bytes in memory
OPENED = 20_000  # images opened, unless all are to be decoded


@dataclass(frozen=True)
class LazyImages(Generic[Place]):
    """An ordered sequence of n images that needs little memory because images are read lazily.

    Args:
        places: where each image is.

    Attributes:
        unused: columns beside the images that are not read.
    """

    places: tuple[Place, ...]

    @property
    def unused(self) -> list[str]:
        return []

    def __len__(self) -> int:
        return len(self.places)

    def part(self, chosen: slice | list[int]) -> Self:
        """Return a slice of the images, or those at some positions in ascending order."""
        positions = np.arange(len(self))[chosen]
        return replace(self, places=tuple(self.places[position] for position in positions))


@dataclass(frozen=True)
class ImageFiles(LazyImages[Path]):
    """Images stored in one file each.

    Args:
        places: paths of the n files.
        remedy: advice to the user if files are missing.
    """

    remedy: str = "Copy the whole dataset, or set dataset.path to the folder that contains it."

    def name(self, position: int) -> str:
        """Return the location of an image, for messages."""
        return str(self.places[position])

    def stamps(self) -> list[str]:
        """Return the name, size and modification time of each file.

        Raises:
            UserError: names the files that are missing or in a folder that cannot be accessed.
        """
        stamps = []
        missing = []
        for path in self.places:
            try:
                stamps.append(_stamp(path))
            except PermissionError:
                missing.append(
                    f"{path} cannot be accessed; expected an image in a folder that you can read."
                )
            except OSError:
                missing.append(f"{path} is missing; expected an image. {self.remedy}")
        refuse(missing)
        return stamps

    def read(self) -> Iterator[bytes | None]:
        """Yield the content of each file, or None if it cannot be read; the caller reports it
        together with all other errors.
        """
        for path in self.places:
            try:
                content = path.read_bytes()
            except OSError:
                content = None
            yield content

    def copy(self, chosen: Mapping[int, str], folder: Path) -> None:
        """Link the images at some positions, given with their split and class (``train/cat``)."""
        for position, place in chosen.items():
            target = folder / place / f"{position}{self.places[position].suffix}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(self.places[position].resolve())


@dataclass(frozen=True)
class ParquetImages(LazyImages[tuple[Path, int]]):
    """Images stored in rows of parquet files, in a binary column, or in a struct column with the
    field ``bytes`` (the layout of dataset hubs).

    Args:
        places: file and row of each image; those of one file are together, in ascending order of
            the rows.
        columns: name of each file's image column.
    """

    columns: Mapping[Path, str]

    def name(self, position: int) -> str:
        """Return the location of an image, for messages."""
        file, row = self.places[position]
        return f"{file}, row {row:,} (the first is 0)"

    def stamps(self) -> list[str]:
        """Return the name, size and modification time of each image's file, with the image's
        row.
        """
        stamps = {file: _stamp(file) for file in {file for file, _ in self.places}}
        return [f"{stamps[file]} {row}" for file, row in self.places]

    def read(self) -> Iterator[bytes | None]:
        """Yield the content of each image; None if its row is empty.

        Raises:
            UserError: names the file and the first row that cannot be read.
        """
        for file, places in itertools.groupby(self.places, key=operator.itemgetter(0)):
            rows = [row for _, row in places]
            done = rows[0]
            chosen = set(rows)
            try:
                with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
                    for content in itertools.islice(
                        self._contents(parquet, self.columns[file], done), rows[-1] + 1 - done
                    ):
                        if done in chosen:
                            yield content.as_py()
                        done += 1
                if done <= rows[-1]:
                    raise EOFError("unexpected end of file")
            except DAMAGE as error:
                raise UserError(
                    f"{file}: the images from row {done:,} on (the first is 0) cannot be read"
                    f" ({reason(error)}). {COPY_AGAIN}"
                ) from error

    def copy(self, chosen: Mapping[int, str], folder: Path) -> None:
        """Write the images at some positions, given with their split and class (``train/cat``)."""
        by_split: dict[str, list[dict[str, Any]]] = {}
        contents = self.part(list(chosen)).read()
        for content, place in zip(contents, chosen.values(), strict=True):
            split, _, name = place.partition("/")
            by_split.setdefault(split, []).append({"image": {"bytes": content}, "label": name})
        folder.mkdir()
        for split, rows in by_split.items():
            pq.write_table(pa.Table.from_pylist(rows), folder / f"{split}.parquet")

    @property
    def unused(self) -> list[str]:
        """The columns of the first file that are not read."""
        file, column = next(iter(self.columns.items()))
        return [name for name in pq.read_schema(file).names if name not in (column, "label")]

    def _contents(self, parquet: pq.ParquetFile, column: str, first: int) -> Iterator[Any]:
        """Iterate over the contents of all images, starting at a given row; earlier row groups are
        skipped.
        """
        groups = range(parquet.num_row_groups)
        starts = np.cumsum(
            [0, *(parquet.metadata.row_group(group).num_rows for group in groups)]
        ).tolist()
        group = bisect.bisect(starts, first) - 1
        is_struct = pa.types.is_struct(parquet.schema_arrow.field(column).type)
        batches = parquet.iter_batches(
            ROWS_AT_ONCE,
            row_groups=groups[group:],
            columns=[f"{column}.bytes" if is_struct else column],
        )
        contents = (
            pc.struct_field(batch.column(column), "bytes") if is_struct else batch.column(column)
            for batch in batches
        )
        return itertools.islice(
            itertools.chain.from_iterable(contents), first - starts[group], None
        )


EncodedImages = ImageFiles | ParquetImages


def file_contents(images: EncodedImages, read: bool) -> ndarray:
    """Return a digest of each encoded image in place of its pixels, uint8 (n, 1, 1, 32); unless
    they are read, all differ.
    """
    contents = images.read() if read else itertools.repeat(None, len(images))
    digests = [
        hashlib.sha256(str(position).encode() if content is None else content).digest()
        for position, content in enumerate(contents)
    ]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(len(images), 1, *DIGEST)


def check_images(
    images: EncodedImages,
    place: str | Path,
    allowed: float,
    *,
    decode: bool = True,
    longest: float = np.inf,
    threads: int | None = None,
) -> tuple[list[int], str]:
    """Check images by the code that decodes them, with a progress bar.

    Args:
        images: n encoded images.
        place: their folder, for messages.
        allowed: how many unusable images may be left out, as in
            :class:`trueneg.data.skipping.Skipped`.
        decode: whether to decode each image; else, the first :data:`OPENED` are opened, and decoded
            only if their completeness cannot be seen otherwise.
        longest: maximum aspect ratio: for the images of pairs,
            :data:`trueneg.data.image_cache.LONGEST`.
        threads: number of threads; None: according to the number of cores.

    Returns:
        The positions of all images except the unusable ones, and a sentence about these, by kind
            (empty if there are none).

    Raises:
        UserError: names the unusable images, or, if `allowed` is not false, gives their number if
            it is too large.
    """
    first = images if decode else images.part(slice(OPENED))
    skipped = Skipped(place, len(first), "images", allowed)
    usable = []
    mistakes = []
    check = functools.partial(decode_upright, mode="L") if decode else inspect_image
    checked = map_images(functools.partial(check, longest=longest), first.read(), threads)
    for position, result in enumerate(tqdm(checked, "images", len(first), disable=None)):
        if isinstance(result, UnreadableImageError):
            skipped.add(result.kind, 1)
            mistakes.append(f"{images.name(position)} {result}. {result.remedy}")
        else:
            usable.append(position)
    refuse([] if allowed else mistakes)
    skipped.check()
    if mistakes:
        # without names, which may be those of patients
        log.warning(f"{place}: {skipped.sentence()}")
    return [*usable, *range(len(first), len(images))], skipped.sentence()


def _stamp(file: Path) -> str:
    status = file.stat()
    return f"{file.name} {status.st_size} {status.st_mtime_ns}"

"""Images in parquet files, as hubs lay them out: a column ``img`` or ``image``, and a column ``label``."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueneg.data.decoding import UnreadableImageError, channel_mode, decode_images
from trueneg.data.images.folder import contents, required_path
from trueneg.data.images.image_source import ImageSource
from trueneg.data.mistakes import DAMAGE, readable
from trueneg.errors import UserError
from trueneg.io.files import UserFiles

LAYOUT = "train*.parquet (and, with an official test split, test*.parquet)"
IMAGE_COLUMNS = ("img", "image")
IMAGES_PER_BATCH = 4096  # bounds the encoded bytes in memory
AGAIN = "Download or copy it again."


def load(path: str | Path | None, *, resolution: int | None = None, download: bool = False) -> ImageSource:
    """Own data: a folder of parquet files. The first image tells whether all are read as grey or as RGB.

    Class names come from the hub's metadata in the file; where there are none, they are the labels.

    Args:
        path: folder with train*.parquet and, optionally, test*.parquet (the official test images).
        resolution: side in pixels of the square to resize to; needed where images differ in size.
        download: there is nothing to download, so True is a mistake.

    Raises:
        UserError: if a file is missing, damaged, or of another layout.
    """
    folder = required_path(path, "parquet", LAYOUT)
    if download:
        raise UserError("dataset.download is true, but source parquet reads your own files; leave it out.")
    return read_folder(folder, "parquet", resolution=resolution)


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The files of both splits, in the folder ``path``."""
    return UserFiles(parquet_files(required_path(settings["path"], "parquet", LAYOUT)))


def parquet_files(folder: Path) -> list[Path]:
    """The files of both splits."""
    return [*folder.glob("train*.parquet"), *folder.glob("test*.parquet")]


def split_files(folder: Path, split: str) -> list[Path]:
    """The files of one split, all shards in order.

    Raises:
        UserError: if their names (…-00000-of-00005.parquet) tell that some are missing.
    """
    files = sorted(folder.glob(f"{split}*.parquet"))
    shards = [re.search(r"-of-(\d+)\.parquet$", file.name) for file in files]
    if files and all(shards) and len(files) != int(shards[0][1]):
        raise UserError(
            f"{folder}: holds {len(files)} of the {int(shards[0][1])} files of the {split} split; add those that are missing."
        )
    return files


def read_folder(
    folder: Path,
    name: str,
    *,
    resolution: int | None,
    mode: str | None = None,
    class_names: tuple[str, ...] | None = None,
    expected_rows: dict[str, int] | None = None,
) -> ImageSource:
    """Read the splits ``train`` and ``test`` of a folder of parquet files.

    Args:
        folder: where the files are.
        name: name of the source.
        resolution: side in pixels of the square to resize to; None: as they are.
        mode: ``"L"`` or ``"RGB"``; None: as the first image.
        class_names: of a known data set; the files' own, if their metadata name them, come first; None: the
            labels themselves.
        expected_rows: images of each split of a known data set; None: any number, and no test split is fine.

    Raises:
        UserError: naming the file, the row or column, what was found and what was expected.
    """
    splits = {split: split_files(folder, split) for split in ("train", "test")}
    for split in expected_rows or ("train",):
        if not splits[split]:
            raise UserError(f"{folder}: no {split}*.parquet there (found {contents(folder)}); expected {LAYOUT}.")
    rows = {split: sum(map(_row_count, files)) for split, files in splits.items()}
    for split, expected in (expected_rows or {}).items():
        if rows[split] != expected:
            raise UserError(
                f"{splits[split][0]}: {rows[split]:,} of {expected:,} images of the {split} split of {name} "
                "are there. Add what is missing, or read a data set of your own with dataset.source: parquet."
            )
    if not rows["train"]:
        raise UserError(f"{splits['train'][0]}: holds no images, expected at least one.")
    files = splits["train"] + splits["test"]
    names = _hub_class_names(files[0])
    if class_names is not None and names is not None and len(names) != len(class_names):
        raise UserError(f"{files[0]}: names {len(names)} classes, expected the {len(class_names)} of {name}.")
    class_names = names or class_names
    images, labels = _read_files(files, resolution, mode, class_names)
    if class_names is None:
        class_names = _names_of_labels(labels, folder)
    is_test = np.arange(len(labels)) >= rows["train"]
    return ImageSource(name, images, labels, is_test, class_names)


def _read_files(
    files: Sequence[Path], resolution: int | None, mode: str | None, class_names: tuple[str, ...] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, C, H, W) and labels (n,) of all files, in order."""
    images, labels, size = None, np.empty(sum(map(_row_count, files)), np.int64), None
    done = 0
    for file in files:
        first = done
        for encoded, batch_labels in _batches(file, class_names):
            try:
                mode = mode or channel_mode(encoded[0])
                batch = decode_images(encoded, mode=mode, resolution=resolution, size=size)
            except UnreadableImageError as error:
                row = f"row {done - first + error.position:,} (the first is 0)"
                raise UserError(f"{file}: the image in {row} {error}. {error.remedy}") from error
            if images is None:
                images = np.empty((len(labels), *batch.shape[1:]), np.uint8)
                size = None if resolution else (batch.shape[3], batch.shape[2])
            images[done : done + len(batch)] = batch
            labels[done : done + len(batch)] = batch_labels
            done += len(batch)
    return images, labels


def _batches(file: Path, class_names: tuple[str, ...] | None) -> Iterator[tuple[list[bytes | None], np.ndarray]]:
    """Encoded images and checked labels, some thousand rows at a time."""
    parquet = _opened(file)
    column = _image_column(parquet.schema_arrow, file)
    done, total = 0, parquet.metadata.num_rows
    try:
        for batch in parquet.iter_batches(IMAGES_PER_BATCH, columns=[f"{column}.bytes", "label"]):
            labels = _checked_labels(batch.column("label"), file, done, class_names)
            yield pc.struct_field(batch.column(column), "bytes").to_pylist(), labels
            done += len(batch)
    except DAMAGE as error:
        reason = " ".join(str(error).split())
        found = f"{done:,} of {total:,} images could be read, then the file is damaged ({reason})"
        raise UserError(f"{file}: {found}. {AGAIN}") from error
    if done != total:
        raise UserError(f"{file}: {done:,} of {total:,} images could be read, then the file ends. {AGAIN}")


def _opened(file: Path) -> pq.ParquetFile:
    with readable(file, "a whole parquet file", AGAIN):
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
    metadata = parquet.metadata
    found = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    if found != metadata.num_rows:
        raise UserError(
            f"{file}: its row groups hold {found:,} rows, expected {metadata.num_rows:,} as in its footer: it is damaged. {AGAIN}"
        )
    return parquet


def _row_count(file: Path) -> int:
    return _opened(file).metadata.num_rows


def _image_column(schema: pa.Schema, file: Path) -> str:
    """Name of the column of encoded images, after checking that it and ``label`` have the right types."""
    present = ", ".join(f"{field.name}: {field.type}" for field in schema)
    column = next((name for name in IMAGE_COLUMNS if name in schema.names), None)
    if column is None or "label" not in schema.names:
        raise UserError(
            f"{file}: has the columns {present or '(none)'}; expected img or image: "
            "struct<bytes: binary, path: string>, and label: int64. Rename the columns."
        )
    kind = schema.field(column).type
    inner = kind.field("bytes").type if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else None
    if inner is None or not (pa.types.is_binary(inner) or pa.types.is_large_binary(inner)):
        raise UserError(
            f"{file}: column {column} is {kind}, expected struct<bytes: binary, path: string> with each "
            "image as the content of a PNG or JPEG file."
        )
    if not pa.types.is_integer(schema.field("label").type):
        raise UserError(f"{file}: column label is {schema.field('label').type}, expected int64: the number of the class.")
    return column


def _checked_labels(labels: pa.Array, file: Path, first_row: int, class_names: tuple[str, ...] | None) -> np.ndarray:
    """The labels as int64, shape (n,), none missing, negative, or without a class."""
    values = pc.fill_null(labels.cast(pa.int64()), -1).to_numpy()
    wrong = (values < 0) | (values >= len(class_names) if class_names else False)
    if wrong.any():
        row = int(wrong.argmax())
        expected = f"0 to {len(class_names) - 1}" if class_names else "0 or more"
        found = f"the label in row {first_row + row:,} (the first is 0) is {labels[row].as_py()}"
        raise UserError(f"{file}: {found}, expected {expected}. Correct the column label.")
    return values


def _hub_class_names(file: Path) -> tuple[str, ...] | None:
    """Class names that the hub's library wrote into the schema's metadata; None where there are none."""
    metadata = _opened(file).schema_arrow.metadata or {}
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"]["label"]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    return tuple(map(str, names)) if isinstance(names, list) else None


def _names_of_labels(labels: np.ndarray, folder: Path) -> tuple[str, ...]:
    """Each label as its own name, after checking that none is left out: a gap is a label gone wrong."""
    present = np.unique(labels)
    if present[-1] != len(present) - 1:
        gap = int(np.flatnonzero(present != np.arange(len(present)))[0])
        raise UserError(
            f"{folder}: labels go up to {present[-1]}, but no image has label {gap}; expected 0, 1, 2, … "
            "without gaps. Correct the column label."
        )
    return tuple(str(label) for label in present)

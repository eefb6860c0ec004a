"""Images in parquet files in the layout of dataset hubs: a column ``img`` or ``image``, and a
column ``label``; a single file has training images only.
"""

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy import ndarray

from trueneg.data.image_files import ParquetImages
from trueneg.data.images.folder import contents, required_path
from trueneg.data.images.image_source import ListedImages
from trueneg.data.images.labels import checked_labels, class_name, sorted_names
from trueneg.data.mistakes import COPY_AGAIN
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.io.reading import reading
from trueneg.specs.sections import Section

LAYOUT = "train*.parquet (and, with official splits, test*.parquet and val*.parquet)"
IMAGE_COLUMNS = ("img", "image")


def listed(
    path: str | Path | None,
    class_names: tuple[str, ...] = (),
    rows: Mapping[str, int] | None = None,
) -> ListedImages:
    """List the images of parquet files without opening them.

    Labels are class indices or class names. The names of indices come from the hub's metadata in
    the file.

    Args:
        path: folder with train*.parquet and, optionally, test*.parquet (the official test images)
            and val*.parquet (validation images, also named valid or validation); or one file.
        class_names: class names of a published dataset; names in the files' metadata take
            precedence. Without any names, the labels serve as names.
        rows: number of images of each split of a published dataset; None: any number, and only the
            training split is required.

    Raises:
        UserError: if a file is missing, damaged or invalid; names the file, and the values found
            and expected.
    """
    folder = _place(path)
    splits = {split: split_files(folder, split) for split in rows or ("train", "val", "test")}
    files = {file: parquet for shards in splits.values() for file, parquet in shards.items()}
    for split in rows or ("train",):
        if not splits[split]:
            other = (
                " For a folder with one subfolder of images per class, set dataset.source to"
                " image_folder."
            )
            raise UserError(
                f"{folder} contains no {split}*.parquet (found {contents(folder)}); expected"
                f" {LAYOUT}.{'' if rows else other}"
            )
    columns = {file: _image_column(parquet.schema_arrow, file) for file, parquet in files.items()}
    first = next(iter(files))
    names = _hub_class_names(files[first].schema_arrow)
    if class_names and names and len(names) != len(class_names):
        raise UserError(f"{first} names {len(names)} classes; expected {len(class_names)}.")
    class_names = names or class_names
    read = {file: _label_column(file, parquet) for file, parquet in files.items()}
    are_names = {values.dtype.kind == "O" for values in read.values()}
    if len(are_names) > 1:
        raise UserError(
            f"{folder}: label is a number in some files and a name in others; expected the same in"
            " all files."
        )
    if not class_names and are_names == {True}:
        class_names = sorted_names(itertools.chain(*read.values()))
    labels_of = {file: _labels(file, values, class_names) for file, values in read.items()}
    counts = {
        split: sum(len(labels_of[file]) for file in shards) for split, shards in splits.items()
    }
    for split, expected in (rows or {"train": max(counts["train"], 1)}).items():
        if counts[split] != expected:
            other = (
                ", or set dataset.source to parquet to use a dataset of your own" if rows else ""
            )
            raise UserError(
                f"{next(iter(splits[split]))} has {counts[split]:,} of {expected:,} images in the"
                f" {split} split. Add the missing images{other}."
            )
    labels = np.concatenate(list(labels_of.values()))
    class_names = class_names or _names_of_labels(labels, folder)
    places = tuple((file, row) for file, values in labels_of.items() for row in range(len(values)))
    split_of = np.repeat(list(counts), list(counts.values()))
    return ListedImages(
        ParquetImages(places, columns), labels, split_of == "test", class_names, split_of == "val"
    )


def user_files(settings: Section) -> UserFiles:
    """Return the file ``path``, or the files of all splits in this folder."""
    folder = _place(settings["path"])
    if folder.is_file():
        return UserFiles([folder])
    return UserFiles([*parquet_files(folder), *folder.glob("val*.parquet")])


def _place(path: str | Path | None) -> Path:
    file = Path(path or "").expanduser()
    is_table = file.suffix == ".parquet" and file.is_file()
    return file if is_table else required_path(path, "parquet", LAYOUT)


def parquet_files(folder: Path) -> list[Path]:
    """Return the files of the training and test splits."""
    return [*folder.glob("train*.parquet"), *folder.glob("test*.parquet")]


def split_files(folder: Path, split: str) -> dict[Path, pq.ParquetFile]:
    """Open all shards of one split, in order.

    Raises:
        UserError: if a file is damaged, or the file names (…-00000-of-00005.parquet) indicate that
            some are missing.
    """
    files = [folder] if split == "train" and folder.is_file() else []
    files = files or sorted(folder.glob(f"{split}*.parquet"))
    shard = re.search(r"-of-(\d+)\.parquet$", files[0].name) if files else None
    expected = len(files) if shard is None else int(shard[1])
    if len(files) != expected:
        raise UserError(
            f"{folder} contains {len(files)} of the {expected} files of the {split} split; add the"
            " missing files."
        )
    opened = {}
    for file in files:
        with reading(file, "a parquet file", COPY_AGAIN):
            opened[file] = pq.ParquetFile(file, page_checksum_verification=True)
    return opened


def _label_column(file: Path, parquet: pq.ParquetFile) -> ndarray:
    """Return the labels as an array of numbers or of class names."""
    with reading(file, "a parquet file", COPY_AGAIN):
        column = parquet.read(["label"]).column("label")
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        labels = column.to_numpy()
        if is_text := _is_text(column.type):
            labels = np.array(list(map(class_name, labels)), object)
    missing = pd.isna(labels)
    if missing.any():
        raise UserError(
            f"{file}: {missing.sum():,} of {len(missing):,} images have no label, first in row"
            f" {missing.argmax():,} (the first is 0); expected the number or printable name of a"
            " class. Correct them or remove the rows."
        )
    return labels if is_text else labels + 0  # false and true are classes 0 and 1


def _labels(file: Path, values: ndarray, class_names: tuple[str, ...]) -> ndarray:
    """Return the labels as class indices."""
    if values.dtype.kind != "O":
        return checked_labels(file, values, 0, len(class_names) - 1 if class_names else None)
    numbers = {class_name(name): number for number, name in enumerate(class_names)}
    labels = np.array([numbers.get(name, -1) for name in values], np.int64)
    if (labels < 0).any():
        row = (labels < 0).argmax()
        raise UserError(
            f"{file}: the label in row {row:,} (the first is 0) is {values[row]!r}; expected one"
            f" of: {', '.join(class_names)}."
        )
    return labels


def _image_column(schema: pa.Schema, file: Path) -> str:
    """Return the name of the image column after checking its type and that of ``label``."""
    types = dict(zip(schema.names, schema.types, strict=True))
    for column in IMAGE_COLUMNS:
        if has_encoded_images(types.get(column, pa.null())) and _is_label(
            types.get("label", pa.null())
        ):
            return column
    present = ", ".join(f"{name}: {kind}" for name, kind in types.items())
    raise UserError(
        f"{file} has the columns {present or '(none)'}; expected img or image: struct<bytes:"
        " binary, path: string> or binary, the content of image files, and label: int64 (the class"
        " number) or string (its name). Rename or convert the columns."
    )


def _is_label(kind: pa.DataType) -> bool:
    """Return whether a column contains class indices or class names."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return _is_text(kind) or is_number or pa.types.is_boolean(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def has_encoded_images(kind: pa.DataType) -> bool:
    """Return whether a column has the content of image files, or is a struct with it in its field
    ``bytes``.
    """
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind = kind.field("bytes").type
    return kind in (pa.binary(), pa.large_binary())


def _hub_class_names(schema: pa.Schema) -> tuple[str, ...]:
    """Return the class names that the hub's library wrote into the schema's metadata; empty if
    there are none.
    """
    try:
        names = json.loads(schema.metadata[b"huggingface"])["info"]["features"]["label"]["names"]
    except (KeyError, TypeError, ValueError):
        return ()
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _names_of_labels(labels: ndarray, folder: Path) -> tuple[str, ...]:
    """Use each label as its own class name; reject gaps between labels, which indicate a wrong
    label.
    """
    present = np.unique(labels)
    gaps = np.flatnonzero(present != np.arange(len(present)))
    if len(gaps):
        raise UserError(
            f"{folder}: the largest label is {present[-1]}, but no image has label {gaps[0]};"
            " expected 0, 1, 2, … without gaps. Correct the label column."
        )
    return tuple(map(str, present))

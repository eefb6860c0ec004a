"""CIFAR-10: 50,000 training and 10,000 test images of 32 × 32 pixels in 10 classes (Krizhevsky 2009)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.data.decoding import resize_images
from trueneg.data.download import fetch_archive
from trueneg.data.images.folder import contents, required_path
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.parquet import parquet_files, read_folder
from trueneg.errors import UserError
from trueneg.io.files import UserFiles

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
UNPACKED = "cifar-10-batches-bin"
BINARY_FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
IMAGES_PER_FILE = 10_000
RECORD = 1 + 3 * 32 * 32  # bytes: the label, then the red, green and blue planes by rows
PYTHON_VERSION = ("cifar-10-batches-py", "data_batch_1", "cifar-10-python.tar.gz")  # what gives it away
LAYOUT = f"train*.parquet and test*.parquet, or {UNPACKED}"


def load(path: str | Path | None, *, resolution: int | None = None, download: bool = False) -> ImageSource:
    """Read the parquet files or the official binary version, whichever the folder holds.

    Args:
        path: folder with train*.parquet and test*.parquet, or with cifar-10-batches-bin or its files.
        resolution: side in pixels of the square to resize to; None: 32.
        download: fetch the official binary version where the folder holds neither.

    Raises:
        UserError: if files are missing, damaged or of another layout, or cannot be fetched.
    """
    folder = required_path(path, "cifar10", LAYOUT)
    binary = _binary_folder(folder)
    has_parquet = bool(parquet_files(folder))
    if binary is None and not has_parquet and download:
        fetch_archive(URL, MD5, folder, UNPACKED)
        binary = folder / UNPACKED
    if has_parquet:
        return read_folder(
            folder,
            "cifar10",
            resolution=resolution,
            mode="RGB",
            class_names=CLASS_NAMES,
            expected_rows={"train": 50_000, "test": 10_000},
        )
    if binary is not None:
        return _read_binary(binary, resolution)
    remedy = "Set dataset.download: true to fetch the binary version, or put parquet files there"
    if any((folder / name).exists() for name in PYTHON_VERSION):
        raise UserError(
            f"{folder}: holds the Python version of CIFAR-10, whose pickles can run any code and are never "
            f"loaded; expected {LAYOUT}. {remedy}."
        )
    raise UserError(f"{folder}: found {contents(folder)}; expected {LAYOUT}. {remedy}.")


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The parquet files, or those of the binary version, in the folder ``path``."""
    folder = required_path(settings["path"], "cifar10", LAYOUT)
    binary = _binary_folder(folder)
    return UserFiles(parquet_files(folder) or [binary / name for name in BINARY_FILES if binary])


def _binary_folder(folder: Path) -> Path | None:
    return next((place for place in (folder, folder / UNPACKED) if any(place.glob("*_batch*.bin"))), None)


def _read_binary(folder: Path, resolution: int | None) -> ImageSource:
    records = np.concatenate([_records(folder / name) for name in BINARY_FILES])
    images = np.ascontiguousarray(records[:, 1:]).reshape(-1, 3, 32, 32)
    is_test = np.arange(len(records)) >= 50_000
    return ImageSource("cifar10", resize_images(images, resolution), records[:, 0].astype(np.int64), is_test, CLASS_NAMES)


def _records(file: Path) -> np.ndarray:
    """The records of one file, uint8, shape (10,000, 3,073)."""
    if not file.is_file():
        raise UserError(f"{file}: is missing, expected the files {', '.join(BINARY_FILES)}; unpack the archive again.")
    found, expected = file.stat().st_size, IMAGES_PER_FILE * RECORD
    if found != expected:
        raise UserError(
            f"{file}: is {found:,} bytes long ({found // RECORD:,} of {IMAGES_PER_FILE:,} images), "
            f"expected {expected:,}; unpack or fetch the archive again."
        )
    records = np.fromfile(file, np.uint8).reshape(IMAGES_PER_FILE, RECORD)
    wrong = records[:, 0] >= len(CLASS_NAMES)
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(
            f"{file}: the label of image {row:,} (the first is 0) is {records[row, 0]}, expected 0 to 9; "
            "unpack or fetch the archive again."
        )
    return records

"""The labelled part of STL-10: 5,000 training and 8,000 test images of 96 × 96 (Coates et al., 2011)."""

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

CLASS_NAMES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
URL = "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz"
MD5 = "91f7769df0f17e558f3565bffb0c7dfb"
UNPACKED = "stl10_binary"
COUNTS = {"train": 5_000, "test": 8_000}
LAYOUT = f"train*.parquet and test*.parquet, or {UNPACKED}"


def load(path: str | Path | None, *, resolution: int | None = None, download: bool = False) -> ImageSource:
    """Read the parquet files or the official binary version, whichever the folder holds.

    Args:
        path: folder with train*.parquet and test*.parquet, or with stl10_binary, or its files themselves.
        resolution: side in pixels of the square to resize to; None: 96.
        download: fetch the official binary version (2.6 GB, mostly unlabelled) where the folder has neither.

    Raises:
        UserError: if files are missing, damaged or of another layout, or cannot be fetched.
    """
    folder = required_path(path, "stl10", LAYOUT)
    binary = _binary_folder(folder)
    has_parquet = bool(parquet_files(folder))
    if binary is None and not has_parquet and download:
        fetch_archive(URL, MD5, folder, UNPACKED)
        binary = folder / UNPACKED
    if has_parquet:
        return read_folder(folder, "stl10", resolution=resolution, mode="RGB", class_names=CLASS_NAMES, expected_rows=COUNTS)
    if binary is not None:
        return _read_binary(binary, resolution)
    raise UserError(
        f"{folder}: found {contents(folder)}; expected {LAYOUT}. "
        "Set dataset.download: true to fetch the binary version, or put parquet files there."
    )


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The parquet files, or those of the binary version, in the folder ``path``."""
    folder = required_path(settings["path"], "stl10", LAYOUT)
    binary = _binary_folder(folder)
    return UserFiles(parquet_files(folder) or [binary / f"{split}_{part}.bin" for split in COUNTS for part in "Xy" if binary])


def _binary_folder(folder: Path) -> Path | None:
    return next((place for place in (folder, folder / UNPACKED) if any(place.glob("t*_[Xy].bin"))), None)


def _read_binary(folder: Path, resolution: int | None) -> ImageSource:
    # The labels first: a mistake in them is told before 360 MB are read.
    labels = np.concatenate([_labels(folder / f"{split}_y.bin", count) for split, count in COUNTS.items()])
    parts = []
    for split, count in COUNTS.items():
        pixels = _bytes(folder / f"{split}_X.bin", count * 3 * 96 * 96)
        # A plane is stored by columns.
        planes = pixels.reshape(count, 3, 96, 96).transpose(0, 1, 3, 2)
        parts.append(resize_images(planes, resolution))
    is_test = np.arange(len(labels)) >= COUNTS["train"]
    return ImageSource("stl10", np.concatenate(parts), labels, is_test, CLASS_NAMES)


def _labels(file: Path, count: int) -> np.ndarray:
    labels = _bytes(file, count)
    wrong = (labels < 1) | (labels > len(CLASS_NAMES))
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(
            f"{file}: the label of image {row:,} (the first is 0) is {labels[row]}, expected 1 to 10; "
            "unpack or fetch the archive again."
        )
    return labels.astype(np.int64) - 1


def _bytes(file: Path, expected: int) -> np.ndarray:
    if not file.is_file():
        raise UserError(f"{file}: is missing, expected the files of {UNPACKED}; unpack the archive again.")
    found = file.stat().st_size
    if found != expected:
        raise UserError(f"{file}: is {found:,} bytes long, expected {expected:,}; unpack or fetch the archive again.")
    return np.fromfile(file, np.uint8)

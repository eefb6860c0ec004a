"""The labelled part of STL-10: 5,000 training and 8,000 test images of 96 × 96 (Coates et al., 2011)."""

from pathlib import Path

import numpy as np

from trueneg.data.decoding import resize_images
from trueneg.data.images.labels import checked_labels
from trueneg.data.images.official_archive import OfficialArchive, binary_content


def _read_binary(folder: Path, resolution: int | None) -> tuple[np.ndarray, np.ndarray]:
    # Read the labels first, so that errors in them are reported before 360 MB of images are read.
    labels = []
    for split, count in ARCHIVE.rows.items():
        file = folder / f"{split}_y.bin"
        labels.append(checked_labels(file, binary_content(file, count, count), 1, 10))
    parts = []
    for split, count in ARCHIVE.rows.items():
        pixels = binary_content(folder / f"{split}_X.bin", count * 3 * 96 * 96, count)
        # Planes are stored in column-major order.
        planes = pixels.reshape(count, 3, 96, 96).transpose(0, 1, 3, 2)
        parts.append(resize_images(planes, resolution))
    return np.concatenate(parts), np.concatenate(labels)


ARCHIVE = OfficialArchive(
    "stl10",
    ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"),
    rows={"train": 5_000, "test": 8_000},
    url="http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",  # 2.6 GB, mostly unlabelled
    md5="91f7769df0f17e558f3565bffb0c7dfb",
    unpacked="stl10_binary",
    binary_files=("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin"),
    read=_read_binary,
)
load, user_files = ARCHIVE.load, ARCHIVE.user_files

"""CIFAR-10: 50,000 training and 10,000 test images of 32 × 32 pixels in 10 classes (Krizhevsky 2009).

Reads parquet files or the official binary version. The Python version is never loaded because it consists of pickles, which can
execute arbitrary code.
"""

from pathlib import Path

import numpy as np

from trueneg.data.decoding import resize_images
from trueneg.data.images.labels import checked_labels
from trueneg.data.images.official_archive import OfficialArchive, binary_content

IMAGES_PER_FILE = 10_000
RECORD = 1 + 3 * 32 * 32  # bytes: the label, then the red, green and blue planes in row-major order


def _read_binary(folder: Path, resolution: int | None) -> tuple[np.ndarray, np.ndarray]:
    images, labels = [], []
    for name in ARCHIVE.binary_files:
        records = binary_content(folder / name, IMAGES_PER_FILE * RECORD, IMAGES_PER_FILE).reshape(IMAGES_PER_FILE, RECORD)
        labels.append(checked_labels(folder / name, records[:, 0], 0, 9))
        images.append(records[:, 1:].reshape(-1, 3, 32, 32))
    return resize_images(np.concatenate(images), resolution), np.concatenate(labels)


ARCHIVE = OfficialArchive(
    "cifar10",
    ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    rows={"train": 50_000, "test": 10_000},
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    unpacked="cifar-10-batches-bin",
    binary_files=(*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"),
    read=_read_binary,
)
load, user_files = ARCHIVE.load, ARCHIVE.user_files

"""Images in the layouts of the image sources; CIFAR-10 and STL-10 in their binary versions, at
their official sizes.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.data.pictures import encoded, write_picture
from trueneg.data.images.sources import cifar10, stl10

STL10_PIXELS = 3 * 96 * 96
CLASSES = ("bird", "cat", "dog")
IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def write_cifar10(folder: Path, records: np.ndarray) -> None:
    """Write the official files; records: uint8 (60000, 3073), a label and three row-major planes,
    the test images last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(cifar10.ARCHIVE.binary_files):
        records[10_000 * number : 10_000 * (number + 1)].tofile(folder / name)


def write_stl10(folder: Path) -> None:
    """Write the official files as sparse files of black images, with the classes in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in stl10.ARCHIVE.rows.items():
        (np.arange(count, dtype=np.uint8) % 10 + 1).tofile(folder / f"{split}_y.bin")
    for split, count in {**stl10.ARCHIVE.rows, "unlabeled": 100_000}.items():
        with (folder / f"{split}_X.bin").open("wb") as stream:
            stream.truncate(count * STL10_PIXELS)


def write_classes(folder: Path, classes=CLASSES, images=3, first=0, **how) -> Path:
    """Write PNG and JPEG files of each class to one folder per class."""
    for label, name in enumerate(classes):
        for number in range(images):
            suffix = (".png", ".jpg", ".JPEG")[number % 3]
            write_picture(folder / name / f"{number}{suffix}", first + 10 * label + number, **how)
    return folder


def random_images(count, shape=(4, 5, 3)):
    return np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)


def pngs(arrays) -> list[bytes]:
    return [encoded(Image.fromarray(array)) for array in arrays]


def write_parquet(path, contents, labels, column="img", metadata=None, **options):
    images = pa.array([{"bytes": content, "path": None} for content in contents], IMAGE)
    table = pa.table({column: images, "label": pa.array(labels)}).replace_schema_metadata(metadata)
    pq.write_table(table, path, **options)

"""CIFAR-10 and STL-10 in their official binary versions, at their official sizes."""

from pathlib import Path

import numpy as np

from trueneg.data.images.sources import cifar10, stl10

STL10_PIXELS = 3 * 96 * 96


def write_cifar10(folder: Path, records: np.ndarray) -> None:
    """The official files; records: uint8 (60000, 3073), a label and three planes by rows, the test images last."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(cifar10.ARCHIVE.binary_files):
        records[10_000 * number : 10_000 * (number + 1)].tofile(folder / name)


def write_stl10(folder: Path) -> None:
    """The official files, whose classes take turns; every pixel is black, and takes no space on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in stl10.ARCHIVE.rows.items():
        (np.arange(count, dtype=np.uint8) % 10 + 1).tofile(folder / f"{split}_y.bin")
    for split, count in {**stl10.ARCHIVE.rows, "unlabeled": 100_000}.items():
        with (folder / f"{split}_X.bin").open("wb") as stream:
            stream.truncate(count * STL10_PIXELS)

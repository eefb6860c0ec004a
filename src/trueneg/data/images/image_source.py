"""What every image source gives: images in memory, labels, and which images are the official test images."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trueneg.data.mistakes import intact, open_arrays, require_checksum
from trueneg.io.files import written_whole


@dataclass(frozen=True, eq=False)
class ImageSource:
    """Labelled images of one size.

    Args:
        name: name of the source, such as ``"cifar10"``.
        images: uint8, shape (n, C, H, W), C = 1 (grey) or 3 (RGB).
        labels: int64, shape (n,), from 0 to the number of classes − 1.
        is_test: bool, shape (n,): the official test images; all False where there is no official split.
        class_names: name of each class, in the order of the labels.

    Attributes:
        checksum: hexadecimal SHA-256 of the decoded images, labels and is_test, whatever files they are from.

    Raises:
        ValueError: if an array has another type or shape, or a label has no class name.

    Example:
        >>> black = np.zeros((2, 1, 8, 8), np.uint8)
        >>> source = ImageSource("black", black, np.array([0, 1]), np.array([False, True]), ("a", "b"))
        >>> len(source.checksum)
        64
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    is_test: np.ndarray
    class_names: tuple[str, ...]
    checksum: str = field(init=False)

    def __post_init__(self):
        count = len(self.images)
        if self.images.dtype != np.uint8 or self.images.ndim != 4 or self.images.shape[1] not in (1, 3):
            found = f"{self.images.dtype} of shape {self.images.shape}"
            raise ValueError(f"images are {found}, expected uint8 of shape (n, C, H, W) with 1 or 3 channels")
        for name, array, dtype in (("labels", self.labels, np.int64), ("is_test", self.is_test, np.bool_)):
            if array.dtype != dtype or array.shape != (count,):
                found = f"{array.dtype} of shape {array.shape}"
                raise ValueError(f"{name} are {found}, expected {np.dtype(dtype)} of shape ({count},)")
        if count and not (self.labels.min() >= 0 and self.labels.max() < len(self.class_names)):
            found = f"from {self.labels.min()} to {self.labels.max()}"
            raise ValueError(f"labels go {found}, expected 0 to {len(self.class_names) - 1} (one name a class)")
        object.__setattr__(self, "checksum", _checksum(self.images, self.labels, self.is_test))


def _checksum(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        # Type and shape too: the same bytes cut into other images are other content.
        digest.update(f"{array.dtype.name} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def write_source(source: ImageSource, path: str | Path) -> None:
    """Write a source as an uncompressed .npz file, whole or not at all."""
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        np.savez(
            stream,
            name=np.array(source.name),
            images=source.images,
            labels=source.labels,
            is_test=source.is_test,
            class_names=np.array(source.class_names),
            checksum=np.array(source.checksum),
        )


def read_source(path: str | Path) -> ImageSource:
    """Read what :func:`write_source` wrote, and compare the checksum.

    Raises:
        UserError: if the file is missing, is damaged, or does not hold a source.
    """
    with intact(path, "decoded image source"), open_arrays(path) as archive:
        source = ImageSource(
            str(archive["name"]),
            archive["images"],
            archive["labels"],
            archive["is_test"],
            tuple(map(str, archive["class_names"])),
        )
        require_checksum(source.checksum, archive)
    return source

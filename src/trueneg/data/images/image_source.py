"""The common representation of image sources: images in memory, labels and the official test
split.
"""

import functools
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy import ndarray

from trueneg.data.arrays import (
    content_hash,
    read_arrays,
    require_checksum,
    require_types,
    size_of,
    write_arrays,
)
from trueneg.data.leakage import numbered
from trueneg.data.near_duplicates import Looks, looks_of_images
from trueneg.data.samples import Samples


@dataclass(frozen=True, eq=False)
class ImageSource:
    """Same-size images with their labels.

    Args:
        name: name of the source, such as ``"cifar10"``.
        images: uint8, shape (n, C, H, W), C = 1 (greyscale) or 3 (RGB).
        labels: int64, shape (n,), from 0 to the number of classes − 1; −1: unlabelled.
        is_test: bool, shape (n,): True for the official test images; all False if there is no
            official split.
        class_names: name of each class, in the order of the labels.
        is_validation: bool, shape (n,): True for the images of the source's own validation split;
            None: it has none.
        names: str, shape (n,): what messages call the user's own images; empty for others.
        skipped: a sentence about the images left out, by kind
            (:meth:`trueneg.data.skipping.Skipped.sentence`); empty if none.

    Attributes:
        checksum: hexadecimal SHA-256 of the decoded images, labels, is_test and, if there are
            validation images, is_validation, independent of the file format.

    Raises:
        ValueError: if an array has an unexpected type or shape.

    Example:
        >>> black = np.zeros((2, 1, 8, 8), np.uint8)
        >>> source = ImageSource(
        ...     "black", black, np.array([0, 1]), np.array([False, True]), ("a", "b")
        ... )
        >>> len(source.checksum)
        64
    """

    class_probabilities: ClassVar[tuple[str, ...]] = ()  # only sentences have some

    name: str
    images: ndarray
    labels: ndarray
    is_test: ndarray
    class_names: tuple[str, ...]
    skipped: str = ""
    is_validation: Any = None
    names: ndarray = field(default_factory=lambda: np.empty(0, str))
    checksum: str = field(init=False)

    def __post_init__(self):
        if self.is_validation is None:
            object.__setattr__(self, "is_validation", np.zeros(len(self.images), bool))
        expected = {
            "images": ("uint8", 4),
            "labels": ("int64", 1),
            "is_test": ("bool", 1),
            "is_validation": ("bool", 1),
        }
        require_types(self, expected)
        content = [self.images, self.labels, self.is_test]
        if self.is_validation.any():
            content.append(self.is_validation)
        object.__setattr__(self, "checksum", content_hash(*content).hexdigest())

    @property
    def summary(self) -> str:
        """What it contains, for messages."""
        counts = {
            "unlabelled": self.labels < 0,
            "official validation": self.is_validation,
            "official test": self.is_test,
        }
        parts = [f"{each.sum():,} {name} images" for name, each in counts.items() if each.any()]
        return ", ".join(
            [
                f"{len(self.images):,} images{size_of(self.images)}",
                f"{len(self.class_names)} classes",
                *parts,
            ]
        )

    @functools.cached_property
    def samples(self) -> Samples:
        """The images and their official splits; unlabelled images are trained on."""
        split = np.select(
            [self.labels < 0, self.is_validation, self.is_test], ["train", "validation", "test"], ""
        )
        groups = {"images": numbered(self.images)}
        return Samples(self.name, self.checksum, split, self.labels, groups, names=self.names)

    def looks(self) -> Looks:
        """By what near duplicates among the images are recognised."""
        return looks_of_images(self.images, self.names)


class ListedImages(NamedTuple):
    """The user's own images before they are decoded: as in :class:`ImageSource`, with encoded
    images.
    """

    images: Any
    labels: ndarray
    is_test: ndarray
    class_names: tuple[str, ...]
    is_validation: ndarray

    def part(self, positions: list[int]) -> "ListedImages":
        """Return the images at some positions, in ascending order."""
        arrays = {
            name: getattr(self, name)[positions] for name in ("labels", "is_test", "is_validation")
        }
        return self._replace(images=self.images.part(positions), **arrays)

    def classes(self) -> set[tuple[int, str]]:
        """Return the classes that have images, with the splits in which they have some."""
        splits = np.select([self.is_test, self.is_validation], ["test", "validation"], "training")
        return set(zip(self.labels.tolist(), splits.tolist(), strict=True))


def write_source(source: ImageSource, path: str | Path) -> None:
    """Write a source atomically, as an uncompressed .npz file."""
    write_arrays(path, {each.name: getattr(source, each.name) for each in fields(source)})


def read_source(path: str | Path) -> ImageSource:
    """Read a source written by :func:`write_source` and verify its checksum.

    Raises:
        UserError: if the file is missing, is damaged, or does not contain a source.
    """
    with read_arrays(path, "a decoded image source") as archive:
        source = ImageSource(
            str(archive["name"]),
            archive["images"],
            archive["labels"],
            archive["is_test"],
            tuple(map(str, archive["class_names"])),
            str(archive.get("skipped", "")),
            archive.get("is_validation"),
            archive.get("names", np.empty(0, str)),
        )
        require_checksum(source.checksum, archive)
    return source

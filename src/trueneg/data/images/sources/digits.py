"""1,797 real handwritten digits of 8 × 8 pixels, inside scikit-learn; there is no official test split."""

from pathlib import Path

import numpy as np

from trueneg.data.decoding import resize_images
from trueneg.data.images.image_source import ImageSource
from trueneg.errors import UserError


def load(path: str | Path | None = None, *, resolution: int | None = None, download: bool = False) -> ImageSource:
    """Digits 0–9 as grey images, their 17 levels 0…16 spread over 0…255.

    Args:
        path: must be None: the images come with scikit-learn.
        resolution: side in pixels of the square to resize to; None: 8.
        download: of no consequence: nothing is missing.

    Raises:
        UserError: if a path is given.
    """
    from sklearn.datasets import load_digits  # slow to import, and only needed here

    if path is not None:
        raise UserError(f"dataset.path is {str(path)!r}, but source digits comes inside scikit-learn; leave it out.")
    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = digits.target.astype(np.int64)
    return ImageSource(
        "digits",
        resize_images(images, resolution),
        labels,
        np.zeros(len(labels), bool),
        tuple(str(digit) for digit in range(10)),
    )

"""1,797 real handwritten digits of 8 × 8 pixels, included in scikit-learn; there is no official
test split.
"""

from pathlib import Path

import numpy as np

from trueneg.data.decoding import resize_images
from trueneg.data.images.image_source import ImageSource
from trueneg.errors import UserError


def load(
    path: str | Path | None = None, *, resolution: int | None = None, download: bool = False
) -> ImageSource:
    """Load the digits 0–9 as greyscale images, with their levels 0…16 rescaled to 0…255.

    Args:
        path: must be None because the images come with scikit-learn.
        resolution: side in pixels of the square to resize to; None: 8.
        download: ignored because there is nothing to download.

    Raises:
        UserError: if a path is given.
    """
    from sklearn.datasets import load_digits  # slow to import and needed only here

    if path is not None:
        raise UserError(
            f"dataset.path is {str(path)!r}, but source digits is included in scikit-learn; remove"
            " dataset.path."
        )
    digits = load_digits()
    images = resize_images(
        np.rint(digits.images * (255 / 16)).astype(np.uint8)[:, None], resolution
    )
    labels = digits.target.astype(np.int64)
    is_test = np.zeros(len(images), bool)
    return ImageSource("digits", images, labels, is_test, tuple(map(str, range(10))))

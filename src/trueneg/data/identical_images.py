"""Notice images with the same pixels and images of one colour, which are usually mistakes of an
export.
"""

import numpy as np
from numpy import ndarray

from trueneg.data.leakage import numbered

UNIFORM = 16  # levels; 12-bit radiographs saved as 16 bits have at most this many


def describe_identical(images: ndarray) -> str:
    """Return a sentence about images with the same pixels and about those of (nearly) one colour;
    empty if there are none.

    Args:
        images: uint8, shape (n, C, H, W); may be memory-mapped.

    Example:
        >>> describe_identical(np.zeros((3, 1, 8, 8), np.uint8))
        '2 of 3 images have the same pixels as an earlier image; 3 have (nearly) one colour'
    """
    repeats = len(images) - len(set(numbered(images).tolist()))
    uniform = sum(int(np.ptp(image, axis=(1, 2)).max()) < UNIFORM for image in images)
    if not repeats and not uniform:
        return ""
    return (
        f"{repeats:,} of {len(images):,} images have the same pixels as an earlier image;"
        f" {uniform:,} have (nearly) one colour"
    )

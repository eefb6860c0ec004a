"""Decode all images of a source into one array."""

import itertools
from typing import Any

import numpy as np

from trueneg.data.decoding import UnreadableImageError, decode_images, open_image
from trueneg.data.image_files import EncodedImages
from trueneg.errors import UserError

GREY_MODES = {"1", "L", "LA", "La"}
IMAGES_PER_BATCH = 4096  # bounds the encoded bytes in memory


def read_pixels(images: EncodedImages, mode: str | None, resolution: int | None) -> np.ndarray:
    """Decode same-size images, or resize to one size.

    Args:
        images: encoded images, at least one.
        mode: ``"L"`` (greyscale) or ``"RGB"``; None: that of the first image.
        resolution: side in pixels of the square to resize to; None keeps the original size.

    Returns:
        uint8, shape (n, C, H, W).

    Raises:
        UserError: names the first image that cannot be decoded or, without `resolution`, differs in size from the first.
    """
    pixels: Any = None
    done, contents = 0, images.read()
    try:
        while encoded := list(itertools.islice(contents, IMAGES_PER_BATCH)):
            mode = mode or ("L" if is_grey(encoded[0]) else "RGB")
            for image in decode_images(encoded, mode, resolution):
                if pixels is None:
                    pixels = np.empty((len(images), *image.shape), np.uint8)
                if image.shape != pixels.shape[1:]:
                    size, expected = ("{2} × {1}".format(*shape) for shape in (image.shape, pixels.shape[1:]))
                    remedy = "Set dataset.resolution to resize all images to one size."
                    raise UnreadableImageError(f"is {size} pixels; expected {expected} as in the first image", remedy)
                pixels[done] = image
                done += 1
    except UnreadableImageError as error:
        raise UserError(f"{images.name(done)} {error}. {error.remedy}") from error
    return pixels


def is_grey(encoded: bytes | None) -> bool:
    """Return whether an image has no colours; True also for an unreadable image, which decoding reports."""
    try:
        return open_image(encoded).mode in GREY_MODES
    except UnreadableImageError:
        return True

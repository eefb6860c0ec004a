"""Small copies of images, for the page."""

import io

import numpy as np
from numpy import ndarray
from PIL import Image


def thumbnail(pixels: ndarray) -> bytes:
    """Encode a uint8 image (1 or 3 channels, H, W) as WebP, with its longer side at most 96
    pixels.
    """
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1))
    image.thumbnail((96, 96))
    stream = io.BytesIO()
    image.convert("RGB").save(stream, "WEBP", quality=82)
    return stream.getvalue()

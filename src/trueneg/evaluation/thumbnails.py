"""Small copies of images, for the page."""

import io

import numpy as np
from numpy import ndarray
from PIL import Image


def thumbnail(pixels: ndarray, side: int = 96) -> bytes:
    """Encode a uint8 image (1 or 3 channels, H, W) as WebP, with its longer side at most `side`
    pixels.
    """
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1))
    image.thumbnail((side, side))
    stream = io.BytesIO()
    image.convert("RGB").save(stream, "WEBP", quality=82)
    return stream.getvalue()

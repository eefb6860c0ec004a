"""Decode image files to arrays, and resize images."""

import contextlib
import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image


class UnreadableImageError(Exception):
    """Raised for an unusable image; its message is a predicate (``is damaged``) to put after the image's name.

    Attributes:
        remedy: advice to the user.
        kind: the kind in counts of such images, as in :class:`trueneg.data.skipping.Skipped`.
    """

    def __init__(self, reason: str, remedy: str = "Replace the file with an undamaged copy.", kind: str = "damaged"):
        super().__init__(reason)
        self.remedy, self.kind = remedy, kind


def decode_images(encoded: Sequence[bytes | None], mode: str, resolution: int | None) -> Iterator[np.ndarray]:
    """Decode PNG and JPEG images in threads (pillow releases the GIL) and resize them as :func:`resize_images` does.

    Args:
        encoded: contents of the image files, one per image.
        mode: ``"L"`` (greyscale) or ``"RGB"``.
        resolution: side in pixels of the square to resize to; None keeps the original size.

    Yields:
        uint8 images of shape (C, H, W), in input order.

    Raises:
        UnreadableImageError: at the first image that cannot be decoded.
    """

    def decode(content: bytes | None) -> np.ndarray:
        image = open_image(content)
        with refused_if_damaged("is damaged ({})"):
            image = image.convert(mode)
        return channels_first(_resized(image, resolution))

    with ThreadPoolExecutor() as pool:
        yield from pool.map(decode, encoded)


def open_image(encoded: bytes | None) -> Image.Image:
    """Open a PNG or JPEG image without decoding its pixels.

    Raises:
        UnreadableImageError: if the image is neither PNG nor JPEG, or has more than 8 bits per channel.
    """
    if encoded is None:
        raise UnreadableImageError("has no readable content")
    with refused_if_damaged("is neither a PNG nor a JPEG image"):
        image: Image.Image = Image.open(io.BytesIO(encoded), formats=("PNG", "JPEG"))
    if image.mode.startswith(("I", "F")):
        problem = f"has pixels of mode {image.mode}; expected 8 bits per channel"
        raise UnreadableImageError(problem, "Save the images with 8 bits per channel.")
    return image


@contextlib.contextmanager
def refused_if_damaged(reason: str) -> Iterator[None]:
    """Convert any exception that pillow raises for a damaged image into an :class:`UnreadableImageError`."""
    try:
        yield
    except MemoryError:  # unrelated to the image
        raise
    except Exception as error:
        raise UnreadableImageError(reason.format(error)) from error


def resize_images(images: np.ndarray, resolution: int | None) -> np.ndarray:
    """Resize images to a square: by area averaging (pillow's BOX filter) when shrinking, by bicubic interpolation when enlarging.

    Args:
        images: uint8, shape (n, C, H, W).
        resolution: side in pixels; None returns the images unchanged.

    Returns:
        uint8, shape (n, C, resolution, resolution).

    Example:
        >>> chequered = np.array([[0, 100], [100, 200]], np.uint8).reshape(1, 1, 2, 2)
        >>> resize_images(chequered, 1).item()
        100
    """
    if resolution is None or images.shape[2:] == (resolution, resolution):
        return images
    resized = np.empty((*images.shape[:2], resolution, resolution), np.uint8)
    for position, image in enumerate(images):
        picture = Image.fromarray(image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))
        resized[position] = channels_first(_resized(picture, resolution))
    return resized


def _resized(image: Image.Image, resolution: int | None) -> Image.Image:
    if resolution is None or image.size == (resolution, resolution):
        return image
    shrinks = resolution <= min(image.size)
    return image.resize((resolution, resolution), Image.Resampling.BOX if shrinks else Image.Resampling.BICUBIC)


def channels_first(image: Image.Image) -> np.ndarray:
    """Return the pixels as uint8 of shape (channels, height, width)."""
    return np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)

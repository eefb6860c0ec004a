"""Encoded images to arrays, and arrays to another size, in threads (pillow frees the interpreter's lock)."""

import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

IMAGES_PER_TASK = 256  # a task for each image would spend more time on scheduling than on decoding
GREY_MODES = {"1", "L", "LA", "La"}


class UnreadableImageError(Exception):
    """An image that cannot be used: its position in the sequence, why, and what to do."""

    def __init__(self, position: int, reason: str, remedy: str = "Replace the file by a whole copy."):
        super().__init__(reason)
        self.position = position
        self.remedy = remedy


def channel_mode(encoded: bytes) -> str:
    """``"L"`` for a grey image, ``"RGB"`` for any other.

    Raises:
        UnreadableImageError: if it is neither PNG nor JPEG.
    """
    return "L" if open_image(encoded, 0).mode in GREY_MODES else "RGB"


def decode_images(
    encoded: Sequence[bytes | None], *, mode: str, resolution: int | None, size: tuple[int, int] | None
) -> np.ndarray:
    """Decode PNG and JPEG images.

    Args:
        encoded: content of one image file each.
        mode: ``"L"`` (grey) or ``"RGB"``.
        resolution: side in pixels of the square to resize to (see :func:`resize_images`); None: as they are.
        size: (width, height) that every image must have before resizing; None: any, if `resolution` is given,
            else the first one's.

    Returns:
        uint8, shape (n, C, H, W).

    Raises:
        UnreadableImageError: for the first image that is damaged, or of another size.
    """
    if size is None and resolution is None:
        size = open_image(encoded[0], 0).size
    width, height = (resolution, resolution) if resolution is not None else size
    decoded = np.empty((len(encoded), len(mode), height, width), np.uint8)

    def decode(positions: range) -> None:
        for position in positions:
            image = open_image(encoded[position], position)
            if size is not None and image.size != size:
                found, expected = ("{} × {}".format(*pair) for pair in (image.size, size))
                remedy = "State dataset.resolution to have all images resized to one size."
                raise UnreadableImageError(position, f"is {found} pixels, expected {expected} as in the first row", remedy)
            try:
                image = image.convert(mode)
            except (OSError, SyntaxError, ValueError) as error:
                raise UnreadableImageError(position, f"is damaged ({error})") from error
            decoded[position] = channels_first(_resized(image, resolution))

    _in_parallel(decode, len(encoded))
    return decoded


def open_image(encoded: bytes | None, position: int = 0) -> Image.Image:
    """A PNG or JPEG image, whose pixels are not decoded yet.

    Raises:
        UnreadableImageError: if it is neither, or has more than 8 bits a channel.
    """
    if encoded is None:
        raise UnreadableImageError(position, "has no bytes")
    try:
        image = Image.open(io.BytesIO(encoded), formats=("PNG", "JPEG"))
    except MemoryError:  # says nothing about the image
        raise
    except Exception as error:  # a damaged image can raise nearly anything
        raise UnreadableImageError(position, "is neither a PNG nor a JPEG image") from error
    if image.mode.startswith(("I", "F")):
        found = f"has pixels of mode {image.mode}, expected 8 bits a channel"
        raise UnreadableImageError(position, found, "Save the images with 8 bits a channel.")
    return image


def resize_images(images: np.ndarray, resolution: int | None) -> np.ndarray:
    """Resize to a square: area averages (pillow's BOX filter) when shrinking, bicubic when enlarging.

    Args:
        images: uint8, shape (n, C, H, W).
        resolution: side in pixels; None: as they are.

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

    def resize(positions: range) -> None:
        for position in positions:
            image = images[position]
            picture = Image.fromarray(image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))
            resized[position] = channels_first(_resized(picture, resolution))

    _in_parallel(resize, len(images))
    return resized


def _resized(image: Image.Image, resolution: int | None) -> Image.Image:
    if resolution is None or image.size == (resolution, resolution):
        return image
    shrinks = resolution <= min(image.size)
    return image.resize((resolution, resolution), Image.Resampling.BOX if shrinks else Image.Resampling.BICUBIC)


def channels_first(image: Image.Image) -> np.ndarray:
    """uint8, shape (channels, height, width)."""
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _in_parallel(work: Callable[[range], None], count: int) -> None:
    tasks = [range(start, min(start + IMAGES_PER_TASK, count)) for start in range(0, count, IMAGES_PER_TASK)]
    with ThreadPoolExecutor() as pool:
        # In order, so that of several mistakes the first is told.
        for _ in pool.map(work, tasks):
            pass

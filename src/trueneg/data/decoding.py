"""Decode image files to arrays, and resize images.

:func:`decode_upright` is the only reader of image files. Formats are recognised by content. The
result is upright (EXIF orientation); transparent pixels are white; greyscale levels of 16 bits are
scaled to 0…255; colour profiles are ignored.
"""

import contextlib
import io
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy import ndarray
from PIL import Image, ImageOps

# pillow warns of images above half of its limit
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

Result = TypeVar("Result")

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF")
# of files in these formats
BEGINNINGS = (b"\x89PNG", b"\xff\xd8", b"RIFF", b"II*\0", b"MM\0*", b"BM", b"GIF8")
EXPECTED = "expected a PNG, JPEG, WebP, TIFF, BMP or GIF image"
REPLACE = "Replace the file with an undamaged copy."
CONVERT = "Convert it to PNG or JPEG with 8 bits per channel."
OTHER_FORMAT = "in formats that cannot be read"  # a kind of unusable images
UNUSUAL = (
    "raw, preview, LAB, levels of 12 or 32 bits or with white as zero, or a transparent level of 2,"
    " 4 or 16 bits"
)
IMAGES_AT_ONCE = 128  # bounds the encoded bytes in memory


class UnreadableImageError(Exception):
    """Raised for an unusable image; its message is a predicate (``is damaged``) to put after the
    image's name.

    Attributes:
        remedy: advice to the user.
        kind: the kind in counts of such images, as in :class:`trueneg.data.skipping.Skipped`.
    """

    def __init__(self, reason: str, remedy: str = REPLACE, kind: str = "damaged"):
        super().__init__(reason)
        self.remedy = remedy
        self.kind = kind


def map_images(
    function: Callable[[bytes | None], Result],
    encoded: Iterable[bytes | None],
    threads: int | None = None,
) -> Iterator[Result | UnreadableImageError]:
    """Apply a function to images in threads (pillow releases the GIL).

    Args:
        function: function of the content of an image file; may raise :class:`UnreadableImageError`.
        encoded: contents of the image files, read a few at a time.
        threads: number of threads; None: according to the number of cores.

    Yields:
        Results in input order; in place of that of an unusable image, what is wrong with it.
    """

    def attempt(content: bytes | None) -> Result | UnreadableImageError:
        try:
            return function(content)
        except UnreadableImageError as error:
            return error

    contents = iter(encoded)
    with ThreadPoolExecutor(threads) as pool:
        for some in iter(lambda: list(itertools.islice(contents, IMAGES_AT_ONCE)), []):
            yield from pool.map(attempt, some)


def decode_resized(encoded: bytes | None, mode: str, resolution: int | None) -> ndarray:
    """Decode an image to uint8 of shape (C, H, W), resized as by :func:`resize_images`; see
    :func:`decode_upright`.
    """
    return channels_first(_resized(decode_upright(encoded, mode), resolution))


def decode_upright(encoded: bytes | None, mode: str, longest: float = np.inf) -> Image.Image:
    """Decode an image upright, on white, with 8 bits per channel.

    For greyscale, the luma of a JPEG file is taken as stored; it differs from pillow's
    ``convert("L")`` by rounding and where colours are clipped. 16-bit greyscale levels are divided
    by 257 and rounded; of 16-bit colours, the higher byte is used.

    Args:
        encoded: content of the file.
        mode: ``"L"`` (greyscale) or ``"RGB"``.
        longest: maximum aspect ratio.

    Raises:
        UnreadableImageError: if the image is damaged, too large, or in a format that cannot be
            read.
    """
    image = open_image(encoded, longest)
    with refused_if_damaged():
        if mode == "L":
            # read the luma directly from the JPEG file, without converting to RGB: a third faster
            image.draft("L", None)
        image.load()
        # without in_place, every image would be copied
        ImageOps.exif_transpose(image, in_place=True)
        if image.mode.startswith("I"):  # 16 bits
            levels = (np.asarray(image).astype(np.uint32) + 128) // 257
            image = Image.fromarray(levels.astype(np.uint8))
        elif image.has_transparency_data:
            white = Image.new("RGBA", image.size, "white")
            image = Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
        # converting to the same mode would copy the image
        return image if image.mode == mode else image.convert(mode)


def open_image(encoded: bytes | None, longest: float = np.inf) -> Image.Image:
    """Open an image without decoding its pixels.

    Args:
        encoded: content of the file.
        longest: maximum aspect ratio.

    Raises:
        UnreadableImageError: if the header shows that the image cannot be used.
    """
    if encoded is None:
        raise UnreadableImageError("has no readable content", REPLACE, "that cannot be opened")
    if encoded.startswith(b"\xff\xd8"):
        # a partial copy can end in zeros, which libjpeg would decode
        encoded = encoded.rstrip(b"\0")
    with refused_if_damaged():
        try:
            image: Image.Image = Image.open(io.BytesIO(encoded), formats=FORMATS)
            if image.format == "PNG":  # loading does not compare all checksums
                image.verify()
                image = Image.open(io.BytesIO(encoded), formats=FORMATS)
        except Image.UnidentifiedImageError:
            if not encoded or encoded.startswith(BEGINNINGS):
                raise UnreadableImageError(
                    f"is empty, damaged, or in an unsupported variant of its format; {EXPECTED}"
                ) from None
            raise UnreadableImageError(
                "is in another format (such as HEIC or DICOM), or not an image (such as a web"
                f" page); {EXPECTED}",
                f"{CONVERT[:-1]}, or download it again.",
                OTHER_FORMAT,
            ) from None
        # The further pictures of an MPO file are other views or depth maps.
        if image.format != "MPO" and (frames := getattr(image, "n_frames", 1)) > 1:
            raise UnreadableImageError(
                f"has {frames:,} pages or frames; expected one",
                "Save one as its own file.",
                OTHER_FORMAT,
            )
        tags = getattr(image, "tag_v2", {})
        is_preview = tags.get(254, 0) & 1 or 50706 in tags  # the latter of a raw photograph
        # Pillow compares a transparent level with levels scaled to 8 bits, and neither scales 12
        # bits nor inverts 16.
        is_keyed = (
            image.format == "PNG"
            and image.mode != "P"
            and encoded[24] in (2, 4, 16)
            and "transparency" in image.info
        )
        levels = (tags.get(258, (16,)), tags.get(262, 1))
        is_unscaled = image.mode.startswith("I;16") and levels != ((16,), 1)
        has_other_levels = image.format == "TIFF" and image.mode in ("I", "F", "LAB")
        if is_preview or is_keyed or is_unscaled or has_other_levels:
            raise UnreadableImageError(
                f"is in an unsupported variant of its format ({UNUSUAL})", CONVERT, OTHER_FORMAT
            )
        if max(image.size) > longest * min(image.size):
            raise UnreadableImageError(
                f"is {image.width} × {image.height} pixels; expected an aspect ratio of at most"
                f" {longest}",
                "Crop or remove it.",
                "that are too narrow",
            )
    with refused_if_damaged(
        "has damaged EXIF metadata ({}), so its orientation is unknown",
        "Repair or remove its metadata.",
    ):
        if "exif" in image.info:
            image.getexif()
    return image


def inspect_image(encoded: bytes | None, longest: float = np.inf) -> None:
    """Check an image, decoding it only if neither checksums (PNG) nor an end marker (JPEG) show
    that it is complete.

    Args:
        encoded: content of the file.
        longest: maximum aspect ratio.

    Raises:
        UnreadableImageError: if the image cannot be used.
    """
    image = open_image(encoded, longest)
    if image.format == "PNG":
        return
    is_jpeg = image.format in ("JPEG", "MPO")
    if not (is_jpeg and encoded and encoded.rstrip(b"\0").endswith(b"\xff\xd9")):
        decode_upright(encoded, "L", longest)


@contextlib.contextmanager
def refused_if_damaged(reason: str = "is damaged ({})", remedy: str = REPLACE) -> Iterator[None]:
    """Convert any exception that pillow raises for a damaged or too large image into an
    :class:`UnreadableImageError`.
    """
    try:
        yield
    except (MemoryError, UnreadableImageError):  # a lack of memory is unrelated to the image
        raise
    except Image.DecompressionBombError as error:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise UnreadableImageError(
            f"has more than {most:,} pixels", "Shrink it.", "that are too large"
        ) from error
    except Exception as error:
        raise UnreadableImageError(reason.format(error), remedy) from error


def resize_images(images: ndarray, resolution: int | None) -> ndarray:
    """Resize images to a square: by area averaging (pillow's BOX filter) when shrinking, by bicubic
    interpolation when enlarging.

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
        picture = Image.fromarray(
            image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))
        )
        resized[position] = channels_first(_resized(picture, resolution))
    return resized


def _resized(image: Image.Image, resolution: int | None) -> Image.Image:
    if resolution is None or image.size == (resolution, resolution):
        return image
    shrinks = resolution <= min(image.size)
    method = Image.Resampling.BOX if shrinks else Image.Resampling.BICUBIC
    return image.resize((resolution, resolution), method)


def channels_first(image: Image.Image) -> ndarray:
    """Return the pixels as uint8 of shape (channels, height, width)."""
    return np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)

"""Decode image files to arrays, and resize images.

:func:`decode_upright` is the only reader of image files. Formats are recognised by content. The result is upright (EXIF
orientation); transparent pixels are white; greyscale levels of 16 bits are scaled to 0…255; colour profiles are ignored.
"""

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image, ImageOps

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF")
REPLACE = "Replace the file with an undamaged copy."
CONVERT = "Convert it to PNG or JPEG with 8 bits per channel."
# Kinds of unusable images.
DAMAGED, LARGE, UNOPENED = "damaged", "that are too large", "that cannot be opened"
OTHER_FORMAT = "in formats that cannot be read"
# What is wrong with content that pillow cannot read, by its first bytes.
OTHER_CONTENT = {
    rb"\x89PNG|\xff\xd8|RIFF....WEBP|II\*\0|MM\0\*|BM|GIF8": ("is damaged, has no pixels, or is of an unusual variant", REPLACE),
    rb"\Z": ("is an empty file", REPLACE),
    rb"....ftyp(he|mif1|msf1|avi)": ("is a HEIC or AVIF image", CONVERT),
    rb".{128}DICM": ("is a DICOM file", CONVERT),
    rb"\s*<(!doctype )?html": ("is a web page", "Download the image again."),
    rb"version https://git-lfs": ("is a pointer of Git LFS", "Run git lfs pull."),
    rb"": ("is in another format, or not an image", "Convert or remove it."),
}
ALPHA = ("RGBA", "LA", "PA", "RGBa")
EXIF_DAMAGED = ("has damaged EXIF metadata ({}), so its orientation is unknown", "Repair or remove its metadata.")


class UnreadableImageError(Exception):
    """Raised for an unusable image; its message is a predicate (``is damaged``) to put after the image's name.

    Attributes:
        remedy: advice to the user.
        kind: the kind in counts of such images, as in :class:`trueneg.data.skipping.Skipped`.
    """

    def __init__(self, reason: str, remedy: str = REPLACE, kind: str = DAMAGED):
        super().__init__(reason)
        self.remedy, self.kind = remedy, kind


Decoded = np.ndarray | UnreadableImageError


def decode_images(encoded: Sequence[bytes | None], mode: str, resolution: int | None) -> Iterator[Decoded]:
    """Decode images in threads (pillow releases the GIL) and resize them as :func:`resize_images` does.

    Args:
        encoded: contents of the image files, one per image.
        mode: ``"L"`` (greyscale) or ``"RGB"``.
        resolution: side in pixels of the square to resize to; None keeps the original size.

    Yields:
        uint8 images of shape (C, H, W), in input order; in place of an unusable image, what is wrong with it.
    """

    def decode(content: bytes | None) -> Decoded:
        try:
            return channels_first(_resized(decode_upright(content, mode), resolution))
        except UnreadableImageError as error:
            return error

    with ThreadPoolExecutor() as pool:
        yield from pool.map(decode, encoded)


def decode_upright(encoded: bytes | None, mode: str, longest: float = np.inf) -> Image.Image:
    """Decode an image upright, on white, with 8 bits per channel.

    For greyscale, the luma of a JPEG file is taken as stored; it differs from pillow's ``convert("L")`` by rounding and where
    colours are clipped. 16-bit greyscale levels are divided by 257 and rounded; of 16-bit colours, the higher byte is used.

    Args:
        encoded: content of the file.
        mode: ``"L"`` (greyscale) or ``"RGB"``.
        longest: maximum aspect ratio.

    Raises:
        UnreadableImageError: if the image is damaged, too large, or in a format that cannot be read.
    """
    image = open_image(encoded, longest)
    with refused_if_damaged():
        if mode == "L":
            image.draft("L", None)  # read the luma directly from the JPEG file, without converting to RGB: a third faster
        image.load()
    with refused_if_damaged(*EXIF_DAMAGED):
        ImageOps.exif_transpose(image, in_place=True)  # without in_place, every image would be copied
    depth = encoded[24] if encoded and image.format == "PNG" else 8
    with refused_if_damaged():
        if image.mode.startswith("I"):
            image = _in_8_bits(image)
        elif image.mode in ALPHA or "transparency" in image.info:
            if depth < 8 and image.mode == "L":  # pillow scales the pixels, but not the transparent level
                image.info["transparency"] *= 255 // (2**depth - 1)
            rgba = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
        elif image.mode == "LAB":
            image = image.convert("RGB")  # pillow converts LAB to nothing else
        return image if image.mode == mode else image.convert(mode)  # converting to the same mode would copy the image


def open_image(encoded: bytes | None, longest: float = np.inf) -> Image.Image:
    """Open an image without decoding its pixels.

    Args:
        encoded: content of the file.
        longest: maximum aspect ratio.

    Raises:
        UnreadableImageError: if the header shows that the image cannot be used.
    """
    if encoded is None:
        raise UnreadableImageError("has no readable content", REPLACE, UNOPENED)
    if encoded.startswith(b"\xff\xd8"):
        encoded = encoded.rstrip(b"\0")  # a partial copy can end in zeros, which libjpeg would decode
    with refused_if_damaged():
        try:
            image: Image.Image = Image.open(io.BytesIO(encoded), formats=FORMATS)
            if image.format == "PNG":  # loading does not compare all checksums
                image.verify()
                image = Image.open(io.BytesIO(encoded), formats=FORMATS)
        except Image.UnidentifiedImageError:
            starts = (start for start in OTHER_CONTENT if re.match(start, encoded, re.DOTALL | re.IGNORECASE))
            reason, remedy = OTHER_CONTENT[next(starts)]
            kind = DAMAGED if remedy == REPLACE else OTHER_FORMAT
            raise UnreadableImageError(f"{reason}; expected a PNG, JPEG, WebP, TIFF, BMP or GIF image", remedy, kind) from None
        # The further pictures of an MPO file are other views or depth maps.
        frames = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
        tags = getattr(image, "tag_v2", {})
    with refused_if_damaged(*EXIF_DAMAGED):
        if "exif" in image.info:
            image.getexif()
    if frames > 1:
        raise UnreadableImageError(f"has {frames:,} pages or frames; expected one", "Save one as a file.", OTHER_FORMAT)
    if tags.get(254, 0) & 1 or 50706 in tags:
        raise UnreadableImageError("is a raw photograph or begins with a preview", CONVERT, OTHER_FORMAT)
    if image.format == "PNG" and encoded[24] == 16 and image.mode == "RGB" and "transparency" in image.info:
        raise UnreadableImageError("has a transparent colour of 16 bits per channel", CONVERT, OTHER_FORMAT)
    if image.mode == "F":
        raise UnreadableImageError("has floating-point pixels; expected integers", CONVERT, OTHER_FORMAT)
    if max(image.size) > longest * min(image.size):
        problem = "is {} × {} pixels; expected an aspect ratio of at most {}".format(*image.size, longest)
        raise UnreadableImageError(problem, "Crop or remove it.", "that are too narrow")
    return image


def inspect_image(encoded: bytes | None, longest: float = np.inf) -> None:
    """Check an image, decoding it only if neither checksums (PNG) nor an end marker (JPEG) show that it is complete.

    Args:
        encoded: content of the file.
        longest: maximum aspect ratio.

    Raises:
        UnreadableImageError: if the image cannot be used.
    """
    image = open_image(encoded, longest)
    has_end = image.format in ("JPEG", "MPO") and (encoded or b"").rstrip(b"\0").endswith(b"\xff\xd9")
    if image.format != "PNG" and not has_end:
        decode_upright(encoded, "L", longest)


@contextlib.contextmanager
def refused_if_damaged(reason: str = "is damaged ({})", remedy: str = REPLACE) -> Iterator[None]:
    """Convert any exception that pillow raises for a damaged or too large image into an :class:`UnreadableImageError`."""
    try:
        yield
    except (MemoryError, UnreadableImageError):  # a lack of memory is unrelated to the image
        raise
    except Image.DecompressionBombError as error:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise UnreadableImageError(f"has more than {most:,} pixels", "Shrink it.", LARGE) from error
    except Exception as error:
        if "MAX_TEXT" in str(error):
            raise UnreadableImageError("has more than 1 MiB of text", "Remove its metadata.", LARGE) from error
        raise UnreadableImageError(reason.format(error), remedy) from error


def _in_8_bits(image: Image.Image) -> Image.Image:
    """Scale the full range of greyscale levels of 12 or 16 bits to 0…255, and paint the transparent level white."""
    levels, tags = np.asarray(image), getattr(image, "tag_v2", {})
    highest = 2 ** min(16, *tags.get(258, (16,))) - 1
    if levels.min() < 0 or levels.max() > highest:
        problem = f"has levels from {levels.min():,} to {levels.max():,}; expected 0 to {highest:,}"
        raise UnreadableImageError(problem, CONVERT, OTHER_FORMAT)
    scaled = ((levels.astype(np.uint32) * 510 + highest) // (2 * highest)).astype(np.uint8)
    if tags.get(262) == 0:  # white is zero
        scaled = 255 - scaled
    scaled[levels == image.info.get("transparency", -1)] = 255
    return Image.fromarray(scaled)


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

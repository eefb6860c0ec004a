"""Cache of decoded images: several threads decode and resize each image once into a memory-mapped
file of uint8 pixels.

The cache is a folder that :func:`trueneg.data.arrays.resumed_array` fills; an interrupted build
resumes where it stopped. :func:`trueneg.data.pairs.pair_source.write_pairs` accepts the memory map
without loading it into memory. The cache may be removed once the pairs are written; keep it if
decoding is slow and the same images will be used with other sentences.
"""

import functools
import hashlib
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from PIL import Image

from trueneg.data.arrays import resumed_array
from trueneg.data.decoding import UnreadableImageError, channels_first, decode_upright, map_images
from trueneg.data.image_files import EncodedImages, check_images
from trueneg.data.mistakes import refuse
from trueneg.errors import UserError
from trueneg.io.files import writable

PIECE_BYTES = 32 * 1024**2  # pixels in memory, and work that is lost if the job is killed
# maximum aspect ratio: the resized image must fit in memory, and the centre of a narrow strip is
# not representative
LONGEST = 20
# Ways to fit an image to a square. If the preprocessing of one changes, change its string, so that
# cached images are rebuilt.
TREATMENTS = {
    "crop": "exif, white, bilinear, centre 1",
    "stretch": "exif, white, bilinear, both sides 1",
}


def square_in(
    size: Sequence[int], resolution: int, fit: str = "crop"
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the size of the resized image and the position of the square in it
    (:func:`decode_square`).

    Args:
        size: (width, height) of the upright image.
        resolution: side of the square, in pixels.
        fit: ``"crop"`` or ``"stretch"``.

    Returns:
        (width, height) of the resized image, and (left, top) of the square in it.

    Example:
        >>> square_in((300, 200), 100)
        ((150, 100), (25, 0))
        >>> square_in((300, 200), 100, "stretch")
        ((100, 100), (0, 0))
    """
    if fit == "stretch":
        return (resolution, resolution), (0, 0)
    shorter = min(size)
    width, height = (
        resolution if side == shorter else int(resolution * side / shorter) for side in size
    )
    return (width, height), (round((width - resolution) / 2), round((height - resolution) / 2))


def decode_square(encoded: bytes | None, mode: str, resolution: int, fit: str = "crop") -> ndarray:
    """Decode an image upright and resize it to a square (bilinear with antialiasing, as in pillow).

    The pixels equal those of torchvision's ``Resize(resolution)`` and ``CenterCrop(resolution)``
    applied to the result of :func:`trueneg.data.decoding.decode_upright`, or, if it is stretched,
    those of ``Resize((resolution, resolution))``.

    Args:
        encoded: content of the image file.
        mode: ``"L"`` (greyscale) or ``"RGB"``.
        resolution: side of the square, in pixels.
        fit: ``"crop"`` scales the image and keeps the central square; ``"stretch"`` resizes both
            sides and keeps the whole image.

    Returns:
        uint8, shape (channels, resolution, resolution).

    Raises:
        UnreadableImageError: if the image cannot be used, or has an aspect ratio above
            :data:`LONGEST`.

    Example:
        >>> import io
        >>> stream = io.BytesIO()
        >>> Image.new("L", (30, 20), 128).save(stream, "PNG")
        >>> decode_square(stream.getvalue(), "RGB", 10).shape
        (3, 10, 10)
    """
    image = decode_upright(encoded, mode, LONGEST)
    resized, (left, top) = square_in(image.size, resolution, fit)
    if image.size != resized:
        image = image.resize(resized, Image.Resampling.BILINEAR)
    if image.size != (resolution, resolution):
        image = image.crop((left, top, left + resolution, top + resolution))
    return channels_first(image)


def cache_images(
    images: EncodedImages,
    folder: str | Path,
    *,
    mode: str,
    resolution: int,
    fit: str = "crop",
    threads: int = 1,
) -> ndarray:
    """Decode and resize the images that are not yet in the cache, with :func:`decode_square`.

    Args:
        images: n encoded images.
        folder: cache folder; the pixels of other images or of another size are replaced. Only one
            build may run at a time.
        mode: ``"L"`` (greyscale) or ``"RGB"``.
        resolution: side of the squares, in pixels.
        fit: ``"crop"`` or ``"stretch"``.
        threads: number of decoding threads.

    Returns:
        uint8, shape (n, channels, resolution, resolution): a read-only memory map.

    Raises:
        UserError: names images that are missing (before any is decoded) or unusable; also if the
            disk has too little free space.
    """
    stamps = hashlib.sha256("\n".join(images.stamps()).encode("utf-8", "surrogatepass")).hexdigest()
    made_of = {
        "images": stamps,
        "mode": mode,
        "resolution": resolution,
        "treatment": TREATMENTS[fit],
    }
    decode = functools.partial(decode_square, mode=mode, resolution=resolution, fit=fit)

    def squares(chosen: slice) -> ndarray:
        decoded: list[Any] = list(map_images(decode, images.part(chosen).read(), threads))
        unusable = {
            chosen.start + place: one
            for place, one in enumerate(decoded)
            if isinstance(one, UnreadableImageError)
        }
        if unusable:  # name those among the remaining images as well
            check_images(
                images.part(slice(chosen.start, None)),
                folder,
                False,
                longest=LONGEST,
                threads=threads,
            )
            refuse(
                [
                    f"{images.name(place)} {error}. {error.remedy}"
                    for place, error in unusable.items()
                ]
            )
        return np.stack(decoded)

    size = len(mode) * resolution**2
    _check_disk(Path(folder), len(images) * size)
    return resumed_array(folder, made_of, len(images), squares, math.ceil(PIECE_BYTES / size))


def _check_disk(folder: Path, size: int) -> None:
    """Check that the disk has room for the pixels that are not in the cache yet."""
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
    there = sum(path.stat().st_blocks * 512 for path in folder.glob("values.npy"))
    missing = size - there
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise UserError(
            f"{folder}: the disk has {free / 2**30:.1f} GiB free; expected"
            f" {missing / 2**30:.1f} GiB for the pixels of the images. Free some space, choose"
            " another disk, or lower dataset.resolution."
        )

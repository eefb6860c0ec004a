"""Images decoded and resized once, by several threads, into one file of uint8 pixels that is read in place.

A cache is a folder with ``images.u8`` (the pixels of image after image) and, for each **shard** of it (some megabytes of whole
images), ``shards/000123.json``: the checksum of its pixels and of what they were made from. A shard counts as made if both still
hold, so a killed build continues where it was, an image file that was replaced costs its shard alone, and a damaged shard is made
again. The result is a read-only map of the file, which :func:`trueneg.data.pairs.pair_source.write_pairs` takes without loading
it. The cache may be removed once it is written there; keep it where decoding is slow and other sentences are to come.
"""

import hashlib
import json
import logging
import math
import shutil
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from tqdm import tqdm

from trueneg.data.decoding import UnreadableImageError, channels_first, open_image, refused_if_damaged
from trueneg.data.image_files import EncodedImages
from trueneg.data.mistakes import refuse
from trueneg.errors import UserError
from trueneg.io.files import atomic_write

log = logging.getLogger(__name__)

SHARD_BYTES = 4 * 1024**2  # what a killed thread loses, and what it reads at once to see that it is whole
LONGEST = 20  # times its width may an image be high: the resized one must fit in memory, and its centre says little of it
# Changes with what is done to an image: what was done otherwise is then done again.
TREATMENT = "exif, bilinear, centre 1"


def central_square(size: tuple[int, int], resolution: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where the square that is kept of an image lies (:func:`decode_square`).

    Args:
        size: (width, height) of the image, upright.
        resolution: side of the square, in pixels.

    Returns:
        (width, height) of the resized image, and (left, top) of the square in it.

    Example:
        >>> central_square((300, 200), 100)
        ((150, 100), (25, 0))
    """
    shorter = min(size)
    width, height = (resolution if side == shorter else int(resolution * side / shorter) for side in size)
    return (width, height), (round((width - resolution) / 2), round((height - resolution) / 2))


def decode_square(encoded: bytes | None, mode: str, resolution: int) -> np.ndarray:
    """One image, upright, its shorter side resized (bilinear with antialiasing, as pillow does), and its central square.

    The same pixels as torchvision's ``Resize(resolution)`` and ``CenterCrop(resolution)`` give of a pillow image. Grey of a JPEG
    file is its luma, which differs from pillow's ``convert("L")`` by rounding, and where colours are at their limits.

    Args:
        encoded: content of a PNG or JPEG file.
        mode: ``"L"`` (grey) or ``"RGB"``.
        resolution: side of the square, in pixels.

    Returns:
        uint8, shape (channels, resolution, resolution).

    Raises:
        UnreadableImageError: if it is damaged, not PNG or JPEG, has more than 8 bits per channel, or is a narrow strip.

    Example:
        >>> import io
        >>> stream = io.BytesIO()
        >>> Image.new("L", (30, 20), 128).save(stream, "PNG")
        >>> decode_square(stream.getvalue(), "RGB", 10).shape
        (3, 10, 10)
    """
    image = open_image(encoded)
    if max(image.size) > LONGEST * min(image.size):
        found = "is {} × {} pixels".format(*image.size)
        raise UnreadableImageError(f"{found}, expected sides of a ratio of at most {LONGEST}", "Leave it out, or crop it.")
    with refused_if_damaged("is damaged ({})"):
        if mode == "L":
            image.draft("L", None)  # the luma as the JPEG file has it, without the detour by colours: a third faster
        ImageOps.exif_transpose(image, in_place=True)  # not in place it copies every image
        image.load()  # before the next line asks for its mode: a palette may become another
        image = image if image.mode == mode else image.convert(mode)  # to its own mode it would be copied
    resized, (left, top) = central_square(image.size, resolution)
    if image.size != resized:
        image = image.resize(resized, Image.Resampling.BILINEAR)
    if image.size != (resolution, resolution):
        image = image.crop((left, top, left + resolution, top + resolution))
    return channels_first(image)


def cache_images(images: EncodedImages, folder: str | Path, *, mode: str, resolution: int, threads: int = 1) -> np.memmap:
    """Decode and resize images, those that the folder does not hold yet (:func:`decode_square` says how).

    Args:
        images: n of them.
        folder: of the cache; what it holds of other images, or of another size, is replaced. One build at a time.
        mode: ``"L"`` (grey) or ``"RGB"``.
        resolution: side of the squares, in pixels.
        threads: that decode; each has at most :data:`SHARD_BYTES` of pixels in memory.

    Returns:
        uint8, shape (n, channels, resolution, resolution), read-only and on the disk.

    Raises:
        UserError: if images are missing (before any is decoded) or cannot be used (after all others are), naming them; or the
            disk is too small.
    """
    folder, shape = Path(folder), (len(images), len(mode), resolution, resolution)
    pixels, size = folder / "images.u8", math.prod(shape[1:])
    count = max(1, SHARD_BYTES // size)
    treatment, stamps = [TREATMENT, mode, str(resolution)], images.stamps()

    def make(first: int) -> tuple[int, bool, list[str]]:
        """Make the shard from an image on, unless it is there: its number of images, whether it was there, what is wrong."""
        part = images.part(slice(first, first + count))
        inputs = "\n".join([*treatment, *stamps[first : first + count]]).encode("utf-8", "surrogatepass")
        description = _description(folder, first // count)
        with pixels.open("r+b") as stream:
            stream.seek(first * size)
            if description.is_file() and description.read_bytes() == _described(inputs, stream.read(len(part) * size)):
                return len(part), True, []
            squares, mistakes = _decode_all(part, mode, resolution)
            stream.seek(first * size)
            stream.write(squares)
        # Written last, and only if all of its images could be used.
        if not mistakes:
            with atomic_write(description) as temporary:
                temporary.write_bytes(_described(inputs, squares))
        return len(part), False, mistakes

    firsts = range(0, len(images), count)
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    with pixels.open("ab") as opened:
        _refuse_small_disk(folder, math.prod(shape))
        opened.truncate(math.prod(shape))
    for outdated in set((folder / "shards").iterdir()) - {_description(folder, first // count) for first in firsts}:
        outdated.unlink()
    mistakes, kept = [], 0
    # Threads: nearly all of the time goes to decoding, resizing and checksums, which let other threads run meanwhile.
    with ThreadPoolExecutor(threads) as pool, tqdm(total=len(images), desc="images", disable=not sys.stderr.isatty()) as bar:
        for made, is_kept, wrong in pool.map(make, firsts):
            bar.update(made)
            mistakes += wrong
            kept += made * is_kept
    log.info("%s images of %d × %d pixels, %s of them from the cache", f"{len(images):,}", resolution, resolution, f"{kept:,}")
    refuse(mistakes)
    return np.memmap(pixels, np.uint8, "r", shape=shape)


def _description(folder: Path, shard: int) -> Path:
    return folder / "shards" / f"{shard:06d}.json"


def _described(inputs: bytes, pixels: bytes) -> bytes:
    """What a shard is made from, and what is in it; the checksum finds a damaged disk and half a shard, not a forgery."""
    return json.dumps({"inputs": hashlib.sha256(inputs).hexdigest(), "checksum": zlib.crc32(pixels)}).encode()


def _decode_all(images: EncodedImages, mode: str, resolution: int) -> tuple[bytes, list[str]]:
    """The squares of some images, and what is wrong with those that cannot be used, whose pixels are 0."""
    squares = np.zeros((len(images), len(mode), resolution, resolution), np.uint8)
    mistakes = []
    for position, content in enumerate(images.read()):
        try:
            squares[position] = decode_square(content, mode, resolution)
        except UnreadableImageError as error:
            mistakes.append(f"{images.name(position)}: {error}. {error.remedy}")
    return squares.tobytes(), mistakes


def _refuse_small_disk(folder: Path, size: int) -> None:
    there, free = (folder / "images.u8").stat().st_blocks * 512, shutil.disk_usage(folder).free
    if size > there + free:
        found = f"{free / 2**30:.1f} GiB free, expected {(size - there) / 2**30:.1f} GiB for the pixels of its images"
        raise UserError(f"{folder}: its disk has {found}. Free some, choose another disk, or lower dataset.resolution.")

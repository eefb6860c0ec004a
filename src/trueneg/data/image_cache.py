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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps
from tqdm import tqdm

from trueneg.data.decoding import UnreadableImageError, channels_first, open_image
from trueneg.data.image_files import EncodedImages
from trueneg.data.mistakes import refuse
from trueneg.errors import UserError
from trueneg.io.files import written_whole

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
        UnreadableImageError: if it is damaged, not PNG or JPEG, has more than 8 bits a channel, or is a narrow strip.

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
        raise UnreadableImageError(0, f"{found}, expected sides of a ratio of at most {LONGEST}", "Leave it out, or cut it.")
    try:
        # A photograph stands as a viewer shows it: cameras leave it lying, with a note of how to turn it.
        if mode == "L":
            image.draft("L", None)  # the luma as the JPEG file has it, without the detour by colours: a third faster
        ImageOps.exif_transpose(image, in_place=True)  # not in place it copies every image
        image.load()  # before the next line asks for its mode: a palette may become another
        image = image if image.mode == mode else image.convert(mode)  # to its own mode it would be copied
    except MemoryError:  # says nothing of the file
        raise
    except Exception as error:
        raise UnreadableImageError(0, f"is damaged ({error})") from error
    resized, (left, top) = central_square(image.size, resolution)
    if image.size != resized:
        image = image.resize(resized, Image.Resampling.BILINEAR)
    if image.size != (resolution, resolution):
        image = image.crop((left, top, left + resolution, top + resolution))
    return channels_first(image)


class _Shard(NamedTuple):
    """Images ``first``, ``first + 1``, … of the cache, and the checksum of what they are made from."""

    images: EncodedImages
    first: int
    inputs: str
    description: Path
    pixels: Path
    mode: str
    resolution: int


class _Made(NamedTuple):
    images: int
    kept: bool
    mistakes: list[str]


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
        ValueError: if the mode or the resolution is none of those, or there is no image.
    """
    folder, shape = Path(folder), (len(images), len(mode), resolution, resolution)
    if mode not in ("L", "RGB") or resolution < 1 or not len(images):
        raise ValueError(f"mode is {mode!r}, resolution {resolution}, of {len(images)} images; expected L or RGB, and at least 1")
    shards = list(_shards(images, folder, mode, resolution))
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    with (folder / "images.u8").open("ab") as stream:
        _refuse_small_disk(folder, math.prod(shape))
        stream.truncate(math.prod(shape))
    for outdated in set((folder / "shards").iterdir()) - {shard.description for shard in shards}:
        outdated.unlink()
    mistakes, kept = [], 0
    with tqdm(total=len(images), desc="images", unit=" images", disable=not sys.stderr.isatty(), leave=False) as bar:
        for made in _made(shards, threads):
            bar.update(made.images)
            mistakes += made.mistakes
            kept += made.images * made.kept
    log.info("%s images of %d × %d pixels, %s of them from the cache", f"{len(images):,}", resolution, resolution, f"{kept:,}")
    refuse(mistakes)
    return np.memmap(folder / "images.u8", np.uint8, "r", shape=shape)


def _shards(images: EncodedImages, folder: Path, mode: str, resolution: int) -> Iterator[_Shard]:
    stamps = images.stamps()
    count = max(1, SHARD_BYTES // (len(mode) * resolution**2))
    for number, first in enumerate(range(0, len(images), count)):
        chosen = slice(first, first + count)
        inputs = hashlib.sha256("\n".join([TREATMENT, mode, str(resolution), *stamps[chosen]]).encode("utf-8", "surrogatepass"))
        description = folder / "shards" / f"{number:06d}.json"
        yield _Shard(images.part(chosen), first, inputs.hexdigest(), description, folder / "images.u8", mode, resolution)


def _made(shards: list[_Shard], threads: int) -> Iterator[_Made]:
    # Threads: nearly all of the time goes to decoding, resizing and checksums, which let other threads run meanwhile.
    with ThreadPoolExecutor(min(threads, len(shards))) as pool:
        yield from pool.map(_make, shards)


def _make(shard: _Shard) -> _Made:
    """Write one shard, unless it is there; its description is written last, and only if all its images could be used."""
    count, size = len(shard.images), len(shard.mode) * shard.resolution**2
    with shard.pixels.open("r+b") as stream:
        inputs, checksum = _described(shard)
        stream.seek(shard.first * size)
        if inputs == shard.inputs and checksum == _checksum(stream.read(count * size)):
            return _Made(count, True, [])
        stream.seek(shard.first * size)
        checksum, mistakes = 0, []  # each image is written while it is still in the processor's cache
        for position, content in enumerate(shard.images.read()):
            try:
                if isinstance(content, UnreadableImageError):
                    raise content
                square = np.ascontiguousarray(decode_square(content, shard.mode, shard.resolution))
            except UnreadableImageError as error:
                mistakes.append(f"{shard.images.name(position)}: {error}. {error.remedy}")
                continue
            checksum = _checksum(square, checksum)
            stream.write(square)
    if not mistakes:
        content = {"inputs": shard.inputs, "checksum": checksum}
        with written_whole(shard.description) as temporary:
            temporary.write_text(json.dumps(content))
    return _Made(count, False, mistakes)


def _described(shard: _Shard) -> tuple[str | None, int | None]:
    try:
        content = json.loads(shard.description.read_text())
        return content["inputs"], content["checksum"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # none, or damaged: the shard is made again
        return None, None


def _checksum(pixels: bytes | np.ndarray, before: int = 0) -> int:
    """Finds a damaged disk and a half-written shard, not a forgery: so at half the time of a cryptographic one."""
    return zlib.crc32(pixels, before)


def _refuse_small_disk(folder: Path, size: int) -> None:
    there, free = (folder / "images.u8").stat().st_blocks * 512, shutil.disk_usage(folder).free
    if size > there + free:
        found = f"{free / 2**30:.1f} GiB free, expected {(size - there) / 2**30:.1f} GiB for the pixels of its images"
        raise UserError(f"{folder}: its disk has {found}. Free some, choose another disk, or lower dataset.resolution.")

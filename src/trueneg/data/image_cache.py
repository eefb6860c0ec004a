"""Cache of decoded images: several threads decode and resize each image once into a memory-mapped file of uint8 pixels.

A cache is a folder with ``images.u8`` (the pixels of all images, concatenated) and, for each **shard** (a few megabytes of
complete images), ``shards/000123.json`` with the checksums of its pixels and of its inputs. A shard is reused only if both
checksums match. An interrupted build therefore resumes where it stopped, replacing an image file rebuilds only its shard, and
a damaged shard is rebuilt. The result is a read-only memory map of the file, which
:func:`trueneg.data.pairs.pair_source.write_pairs` accepts without loading it into memory. The cache may be removed once the
pairs are written; keep it if decoding is slow and the same images will be used with other sentences.
"""

import hashlib
import json
import logging
import math
import shutil
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from trueneg.data.decoding import UnreadableImageError, channels_first, decode_upright
from trueneg.data.image_files import EncodedImages
from trueneg.data.mistakes import refuse
from trueneg.errors import UserError
from trueneg.io.files import atomic_write

log = logging.getLogger(__name__)

SHARD_BYTES = 4 * 1024**2  # work that each thread can lose if the job is killed, and bytes read at once to verify a shard
LONGEST = 20  # maximum aspect ratio: the resized image must fit in memory, and the centre of a narrow strip is not representative
# Ways to fit an image to a square. If the preprocessing of one changes, change its string, so that cached images are rebuilt.
TREATMENTS = {"crop": "exif, white, bilinear, centre 1", "stretch": "exif, white, bilinear, both sides 1"}


def square_in(size: Sequence[int], resolution: int, fit: str = "crop") -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the size of the resized image and the position of the square in it (:func:`decode_square`).

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
    width, height = (resolution if side == shorter else int(resolution * side / shorter) for side in size)
    return (width, height), (round((width - resolution) / 2), round((height - resolution) / 2))


def decode_square(encoded: bytes | None, mode: str, resolution: int, fit: str = "crop") -> np.ndarray:
    """Decode an image upright and resize it to a square (bilinear with antialiasing, as in pillow).

    The pixels equal those of torchvision's ``Resize(resolution)`` and ``CenterCrop(resolution)`` applied to the result of
    :func:`trueneg.data.decoding.decode_upright`, or, if it is stretched, those of ``Resize((resolution, resolution))``.

    Args:
        encoded: content of the image file.
        mode: ``"L"`` (greyscale) or ``"RGB"``.
        resolution: side of the square, in pixels.
        fit: ``"crop"`` scales the image and keeps the central square; ``"stretch"`` resizes both sides and keeps the whole image.

    Returns:
        uint8, shape (channels, resolution, resolution).

    Raises:
        UnreadableImageError: if the image cannot be used, or has an aspect ratio above :data:`LONGEST`.

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
    images: EncodedImages, folder: str | Path, *, mode: str, resolution: int, fit: str = "crop", threads: int = 1
) -> np.memmap:
    """Decode and resize the images that are not yet in the cache, with :func:`decode_square`.

    Args:
        images: n encoded images.
        folder: cache folder; entries for other images or another size are replaced. Only one build may run at a time.
        mode: ``"L"`` (greyscale) or ``"RGB"``.
        resolution: side of the squares, in pixels.
        fit: ``"crop"`` or ``"stretch"``.
        threads: number of decoding threads; each holds at most :data:`SHARD_BYTES` of pixels in memory.

    Returns:
        uint8, shape (n, channels, resolution, resolution): a read-only memory map.

    Raises:
        UserError: names images that are missing (before any is decoded) or unusable (after all others are decoded); also if
            the disk has too little free space.
    """
    folder, shape = Path(folder), (len(images), len(mode), resolution, resolution)
    pixels, size = folder / "images.u8", math.prod(shape[1:])
    count = max(1, SHARD_BYTES // size)
    stamps = images.stamps()
    shards = {folder / "shards" / f"{number:06d}.json": number * count for number in range(math.ceil(len(images) / count))}

    def make(description: Path) -> tuple[int, list[str]]:
        """Build a shard unless it is cached; return the number of cached images and the errors."""
        first = shards[description]
        part = images.part(slice(first, first + count))
        inputs = "\n".join([TREATMENTS[fit], mode, str(resolution), *stamps[first : first + count]])
        with pixels.open("r+b") as stream:
            stream.seek(first * size)
            if description.is_file() and description.read_bytes() == _described(inputs, stream.read(len(part) * size)):
                return len(part), []
            squares, mistakes = _decode_all(part, mode, resolution, fit)
            stream.seek(first * size)
            stream.write(squares)
        # Written last, and only if all images of the shard are usable.
        if not mistakes:
            with atomic_write(description) as temporary:
                temporary.write_bytes(_described(inputs, squares))
        return 0, mistakes

    (folder / "shards").mkdir(parents=True, exist_ok=True)
    with pixels.open("ab") as opened:
        _check_disk(folder, math.prod(shape))
        opened.truncate(math.prod(shape))
    for outdated in set((folder / "shards").iterdir()) - set(shards):
        outdated.unlink()
    # Threads suffice: nearly all time is spent on decoding, resizing and checksums, which release the GIL.
    with ThreadPoolExecutor(threads) as pool:
        made = list(tqdm(pool.map(make, shards), "image shards", len(shards), disable=None))
    cached = sum(cached for cached, _ in made)
    log.info("%s images of %d × %d pixels, %s of them from the cache", f"{len(images):,}", resolution, resolution, f"{cached:,}")
    refuse([mistake for _, mistakes in made for mistake in mistakes])
    return np.memmap(pixels, np.uint8, "r", shape=shape)


def _described(inputs: str, pixels: bytes) -> bytes:
    """Describe a shard by its inputs and its pixels; the checksum detects disk errors and partial writes, not tampering."""
    digest = hashlib.sha256(inputs.encode("utf-8", "surrogatepass")).hexdigest()
    return json.dumps({"inputs": digest, "checksum": zlib.crc32(pixels)}).encode()


def _decode_all(images: EncodedImages, mode: str, resolution: int, fit: str) -> tuple[bytes, list[str]]:
    """Decode images to squares; also return an error message for each unusable image, whose pixels are 0."""
    squares = np.zeros((len(images), len(mode), resolution, resolution), np.uint8)
    mistakes = []
    for position, content in enumerate(images.read()):
        try:
            squares[position] = decode_square(content, mode, resolution, fit)
        except UnreadableImageError as error:
            mistakes.append(f"{images.name(position)} {error}. {error.remedy}")
    return squares.tobytes(), mistakes


def _check_disk(folder: Path, size: int) -> None:
    """Check that the disk has room for the pixels that are not in the cache yet."""
    missing, free = size - (folder / "images.u8").stat().st_blocks * 512, shutil.disk_usage(folder).free
    if missing > free:
        problem = f"the disk has {free / 2**30:.1f} GiB free; expected {missing / 2**30:.1f} GiB for the pixels of the images"
        raise UserError(f"{folder}: {problem}. Free some space, choose another disk, or lower dataset.resolution.")

"""Caches a folder's images slowly, for a test that kills it: `python -m tests.datasets.killed_cache FOLDER`."""

import sys
import time
from pathlib import Path

from trueneg.datasets import image_cache
from trueneg.datasets.image_files import ImageFiles

original = image_cache.decode_square
SHARD_BYTES = 4 * 16 * 16  # four grey images


def slowly(*arguments):
    time.sleep(0.02)
    return original(*arguments)


if __name__ == "__main__":
    image_cache.decode_square, image_cache.SHARD_BYTES = slowly, SHARD_BYTES
    folder = Path(sys.argv[1])
    images = ImageFiles(tuple(sorted((folder / "images").iterdir())))
    image_cache.cache_images(images, folder / "cache", mode="L", resolution=16)

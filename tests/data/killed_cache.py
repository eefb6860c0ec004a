"""Cache a folder's images, and wait after three shards to be killed: `python -m tests.data.killed_cache FOLDER`."""

import sys
import time
from pathlib import Path

from trueneg.data import image_cache
from trueneg.data.image_files import ImageFiles

original = image_cache.decode_square
SHARD_BYTES = 4 * 16 * 16  # four grey images


def until_three_shards(*arguments):
    while len(list(Path(sys.argv[1]).glob("cache/shards/[!.]*.json"))) >= 3:
        time.sleep(1)
    return original(*arguments)


if __name__ == "__main__":
    image_cache.decode_square, image_cache.SHARD_BYTES = until_three_shards, SHARD_BYTES
    folder = Path(sys.argv[1])
    images = ImageFiles(tuple(sorted((folder / "images").iterdir())))
    image_cache.cache_images(images, folder / "cache", mode="L", resolution=16)

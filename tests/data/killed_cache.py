"""Cache a folder's images, and wait after three pieces to be killed: `python -m
tests.data.killed_cache FOLDER`.
"""

import itertools
import sys
import time
from pathlib import Path

from trueneg.data import image_cache
from trueneg.data.image_files import ImageFiles

PIECE_BYTES = 4 * 16 * 16  # four grey images
original, calls = image_cache.decode_square, itertools.count()


def until_three_pieces(*given, **how):
    if next(calls) >= 12:
        Path(sys.argv[1], "three").touch()
        time.sleep(600)
    return original(*given, **how)


if __name__ == "__main__":
    image_cache.decode_square, image_cache.PIECE_BYTES = until_three_pieces, PIECE_BYTES
    folder = Path(sys.argv[1])
    images = ImageFiles(tuple(sorted((folder / "images").iterdir())))
    image_cache.cache_images(images, folder / "cache", mode="L", resolution=16)

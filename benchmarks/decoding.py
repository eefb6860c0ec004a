"""Decoding a folder of images into the cache, beside reading and resizing the same files with Pillow on all cores.

    python benchmarks/decoding.py FOLDER [--resolution 224] [--rounds 3]

The two take turns, on as many processes (Pillow) and threads (the cache); the files are read once beforehand, so that both find
them in the system's cache. Pillow's way is what a loop would be: open, convert to grey, resize, keep nothing. The cache's adds
the checksums, the shards and the file that is written. Prints a Markdown table with the ratio of each round.
"""

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from trueneg.datasets.image_cache import cache_images
from trueneg.datasets.image_files import ImageFiles


def with_pillow(path: Path, resolution: int) -> int:
    with Image.open(path) as image:
        return int(np.asarray(image.convert("L").resize((resolution, resolution), Image.Resampling.BILINEAR))[0, 0])


def timed_pillow(paths: tuple[Path, ...], resolution: int, processes: int) -> float:
    began = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        for _ in pool.map(partial(with_pillow, resolution=resolution), paths, chunksize=64):
            pass
    return time.perf_counter() - began


def timed_cache(paths: tuple[Path, ...], resolution: int, processes: int) -> float:
    with tempfile.TemporaryDirectory(prefix="decoding") as folder:
        began = time.perf_counter()
        cache_images(ImageFiles(paths), folder, mode="L", resolution=resolution, threads=processes)
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="of .jpg, .jpeg or .png files")
    parser.add_argument("--resolution", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    paths = tuple(sorted(path for path in arguments.folder.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png")))
    size = sum(len(path.read_bytes()) for path in paths)
    processes = len(os.sched_getaffinity(0))
    print(f"{len(paths):,} images, {size / 1e6:,.0f} MB, to {arguments.resolution} pixels, {processes} cores\n")
    print("| round | Pillow (s) | cache (s) | cache / Pillow |\n|---|---|---|---|")
    ratios = []
    for number in range(1, arguments.rounds + 1):
        pillow = timed_pillow(paths, arguments.resolution, processes)
        cached = timed_cache(paths, arguments.resolution, processes)
        ratios.append(cached / pillow)
        print(f"| {number} | {pillow:.2f} | {cached:.2f} | {ratios[-1]:.2f} |")
    print(f"\nmedian ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()

"""Time decoding a folder of images into the cache against reading and resizing the same files with
Pillow on all cores.

    python benchmarks/decoding.py FOLDER [--resolution 224] [--rounds 3]

The variants take turns, with as many processes (Pillow) or threads (the cache) as there are cores.
All files are read once first, so that they are in the system's cache. The Pillow variants do what a
simple loop would: open, convert to grey, resize; one discards the pixels in the worker process, the
other returns them to the caller. The cache also writes a file. Prints a Markdown table with the
ratios of each round.
"""

import argparse
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from trueneg.data.image_cache import cache_images
from trueneg.data.image_files import ImageFiles


def with_pillow(path: Path, resolution: int, kept: bool) -> np.ndarray | None:
    with Image.open(path) as image:
        pixels = np.asarray(
            image.convert("L").resize((resolution, resolution), Image.Resampling.BILINEAR)
        )
    return pixels if kept else None


def timed_pillow(paths: tuple[Path, ...], resolution: int, processes: int, kept: bool) -> float:
    began = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        for _ in pool.map(
            partial(with_pillow, resolution=resolution, kept=kept), paths, chunksize=64
        ):
            pass
    return time.perf_counter() - began


def timed_cache(paths: tuple[Path, ...], resolution: int, processes: int) -> float:
    with tempfile.TemporaryDirectory(prefix="decoding") as folder:
        began = time.perf_counter()
        cache_images(ImageFiles(paths), folder, mode="L", resolution=resolution, threads=processes)
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder of .jpg, .jpeg or .png files")
    parser.add_argument("--resolution", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    paths = tuple(
        sorted(
            path
            for path in arguments.folder.iterdir()
            if path.suffix.lower() in (".jpg", ".jpeg", ".png")
        )
    )
    size = sum(len(path.read_bytes()) for path in paths)
    processes = len(os.sched_getaffinity(0))
    print(
        f"{len(paths):,} images, {size / 1e6:,.0f} MB, to {arguments.resolution} pixels,"
        f" {processes} cores\n"
    )
    print(
        "| round | Pillow, discarded (s) | Pillow, returned (s) | cache (s) | cache / discarded |"
        " cache / returned |"
    )
    print("|---|---|---|---|---|---|")
    ratios = []
    for number in range(1, arguments.rounds + 1):
        looped = np.array(
            [timed_pillow(paths, arguments.resolution, processes, kept) for kept in (False, True)]
        )
        cached = timed_cache(paths, arguments.resolution, processes)
        ratios.append(cached / looped)
        print(
            f"| {number} | {looped[0]:.2f} | {looped[1]:.2f} | {cached:.2f} | {ratios[-1][0]:.2f} |"
            f" {ratios[-1][1]:.2f} |"
        )
    print("\nmedian ratios {:.2f} and {:.2f}".format(*np.median(ratios, axis=0)))


if __name__ == "__main__":
    main()

"""Time training on 224-pixel images from disk against the same images on the device: pairs per
second, share of waiting.

Run it on an idle machine, with about 2 GB of free disk space and as much free memory:

    python benchmarks/image_cache.py [--rounds 3] [--threads 1] [--device cpu] [--folder .]

It writes a source whose training images exceed the budget of ``trueneg.data.image_loading``, and
prints a Markdown table. Each network trains the same updates in three ways, which take turns: with
the images on the device (a larger budget), from disk with the file in the system's cache, and from
disk with the file evicted from the cache before every turn. Only speed is measured, so the pixels
are noise; the sentences are the phantom's. The last rows measure the reader alone, without
training.
"""

import argparse
import contextlib
import mmap
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trueneg.data import image_loading
from trueneg.data.pairs.pair_source import PairSource, join_sentences, read_pairs, write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.phantom.reports import phantom_reports
from trueneg.data.samples import Subset
from trueneg.specs import encoders, objectives
from trueneg.specs.kinds import pairs as sections
from trueneg.specs.settings import tag_of
from trueneg.training.image_text import ImageText

IMAGES, SIDE = 32_000, 224  # 70 % are for training: 1.05 GiB
BATCH_SIZE = 64
# The encoder's settings, and the number of updates per turn.
NETWORKS = {
    "small (the default)": (encoders.SmallEncoderSettings(name="small"), 20),
    "ResNet-18": (encoders.ResNetSettings(name="resnet18"), 2),
}
ON_DEVICE, CACHED, NOT_CACHED = (
    "on the device",
    "from the disk, cached",
    "from the disk, not cached",
)


def write_source(path: Path) -> None:
    made = phantom_reports(IMAGES, seed=0)
    reports = made.reports["report"].to_numpy(str)
    source = PairSource(
        "noise",
        images=np.random.default_rng(0).integers(0, 256, (IMAGES, 1, SIDE, SIDE), dtype=np.uint8),
        reports=reports,
        patients=reports,
        sentences=join_sentences(made.sentences),
        labels=np.zeros((IMAGES, 0), np.float32),
        label_names=(),
        shown=np.zeros((IMAGES, 0), bool),
    )
    write_pairs(source, path)
    with path.open("rb") as file:
        os.fsync(file.fileno())  # pages that are not on disk yet cannot be evicted from the cache


def prepare(way: str, source: PairSource, path: Path) -> None:
    """Load the whole file into the system's cache, or evict it from the cache."""
    if way != NOT_CACHED:
        source.images.max()
        return
    source.images.base.madvise(mmap.MADV_DONTNEED)  # mapped pages would stay in the cache
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def settings_of(
    encoder: Any, updates: int, arguments: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Return the settings of a run with the defaults and this encoder."""
    models = {
        "encoder": encoder,
        "text_encoder": encoders.SmallTextEncoderSettings(name="small"),
        "projection": sections.ImageTextProjectionSettings(),
        "similarity": sections.SimilaritySettings(),
        "augmentation": sections.RadiographAugmentationSettings(),
        "training": sections.ImageTextTrainingSettings(
            updates=updates, batch_size=BATCH_SIZE, threads=arguments.threads
        ),
        "objective": next(each for each in objectives.OF_PAIRS if "cl" in tag_of(each)[1])(
            name="cl"
        ),
    }
    return {
        name: model.model_dump(mode="json", exclude_none=name == "objective")
        for name, model in models.items()
    }


def started(
    settings: dict[str, dict[str, Any]],
    source: PairSource,
    subset: Subset,
    way: str,
    device: str,
) -> ImageText:
    budget = image_loading.RESIDENT_BYTES
    try:
        image_loading.RESIDENT_BYTES = source.images.nbytes if way == ON_DEVICE else budget
        training = ImageText(settings, 0, source, subset, torch.device(device))
    finally:
        image_loading.RESIDENT_BYTES = budget
    if training.data.images.resident != (way == ON_DEVICE):
        raise SystemExit(
            f"{len(subset.train):,} training images do not exceed the budget of {budget:,} bytes;"
            " raise IMAGES."
        )
    return training


def turn(training: ImageText) -> tuple[float, float]:
    """Train the run's only epoch, and return pairs per second and the share of waiting."""
    images, waited = training.data.images, []
    batches = type(images).batches

    def timed(numbers: torch.Tensor, batch_size: int) -> Iterator[torch.Tensor]:
        with contextlib.closing(batches(images, numbers, batch_size)) as loaded:
            while True:
                began = time.perf_counter()
                if (batch := next(loaded, None)) is None:
                    return
                waited.append(0.0 if images.resident else time.perf_counter() - began)
                yield batch

    images.batches = timed
    row = training.train_epoch()
    training.epoch = 0  # so that the next turn repeats the same updates
    return row["pairs_per_second"], sum(waited) / row["seconds"]


def reader_alone(source: PairSource, subset: Subset, device: str) -> float:
    """Return images per second."""
    order = np.random.default_rng(0).permutation(subset.train)[: 60 * BATCH_SIZE]
    began = time.perf_counter()
    with contextlib.closing(
        image_loading.read_ahead(source.images, np.split(order, 60), torch.device(device))
    ) as batches:
        for _ in batches:
            pass
    return len(order) / (time.perf_counter() - began)


def row(network: str, way: str, speeds: Sequence[float], waiting: Sequence[float] = ()) -> str:
    shares = f"{statistics.median(waiting):.2%} | {max(waiting):.2%}" if waiting else " | "
    return (
        f"| {network} | {way} | {statistics.median(speeds):,.1f} | {min(speeds):,.1f} …"
        f" {max(speeds):,.1f} | {shares} |"
    )


def measured(source: PairSource, path: Path, arguments: argparse.Namespace) -> None:
    subset = split_pairs(source, 0, validation=0.1, test=0.2)
    print("| network | images | pairs/s | lowest … highest | waiting | at most |")
    print("|---|---|---|---|---|---|")
    for name, (encoder, updates) in NETWORKS.items():
        settings = settings_of(encoder, updates, arguments)
        runs = {
            way: started(settings, source, subset, way, arguments.device)
            for way in (ON_DEVICE, CACHED, NOT_CACHED)
        }
        values: dict[str, list[tuple[float, float]]] = {way: [] for way in runs}
        for _ in range(1 + arguments.rounds):
            for way, training in runs.items():
                prepare(way, source, path)
                values[way].append(turn(training))
        for way, found in values.items():
            print(row(name, way, *zip(*found[1:], strict=True)))
    for way in (CACHED, NOT_CACHED):
        speeds = []
        for _ in range(arguments.rounds):
            prepare(way, source, path)
            speeds.append(reader_alone(source, subset, arguments.device))
        print(row("the reader alone", way, speeds))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="timings of each variant, after a warm-up"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="intra-op threads; the reader is one more"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--folder", default=".", help="folder on the disk to measure")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "pairs.npz"
        write_source(path)
        began = time.perf_counter()
        source = read_pairs(path)
        seconds = time.perf_counter() - began
        print(
            f"torch {torch.__version__}, {arguments.threads} intra-op threads, {arguments.device};"
            f" batches of {BATCH_SIZE}"
        )
        print(f"read_pairs, checksum included: {source.images.nbytes / seconds / 1e9:.2f} GB/s\n")
        measured(source, path, arguments)


if __name__ == "__main__":
    main()

"""Time two augmented views of CIFAR-size images: the batched augmentation against PIL and
torchvision in a DataLoader.

Run it on an idle machine, with torchvision installed:

    python benchmarks/augment.py [--batches 40] [--rounds 5]

It prints a Markdown table. The variants take turns in every round, so that other work on the
machine affects all of them; compare rows of the same run by their ratio. If other work disturbs the
wall time, compare the CPU time, which is given for variants without workers. All variants draw
crops, flips, jitter and greyscale from the same distributions and return two float32 batches of
(128, 3, 32, 32). The time of ours includes drawing the parameters; the loader's workers stay alive
between epochs.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator

import torch
import torchvision
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from trueneg.training.augment import ColorAugmentation

BATCH = 128
SIZE = (32, 32)
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


class TwoViews(Dataset):
    """Pairs of views, made image by image with PIL as in the DCL code (without its blur)."""

    def __init__(self, images: Tensor) -> None:
        self.images = images.permute(0, 2, 3, 1).numpy()
        self.transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(SIZE),
                transforms.RandomHorizontalFlip(p=0.5),
                transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
                transforms.RandomGrayscale(p=0.2),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = Image.fromarray(self.images[index])
        return self.transform(image), self.transform(image)


def batched(images: Tensor, batches: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches of an epoch as training does: draw everything, then gather and augment
    batch by batch.
    """
    augmentation = ColorAugmentation(MEAN, STD)
    generator = torch.Generator().manual_seed(0)
    views = [augmentation.draw(batches * BATCH, SIZE, generator) for _ in range(2)]
    order = torch.randperm(len(images), generator=generator)[: batches * BATCH]
    for rows in torch.arange(batches * BATCH).split(BATCH):
        chosen = images[order[rows]]
        yield augmentation(chosen, views[0][rows]), augmentation(chosen, views[1][rows])


def measure(epoch: Callable[[], Iterator]) -> tuple[float, float]:
    """Return images (two views each) per second and CPU milliseconds of this process per batch,
    over a whole epoch.
    """
    began, used = time.perf_counter(), time.process_time()
    batches = sum(1 for _ in epoch())
    seconds, used = time.perf_counter() - began, time.process_time() - used
    return batches * BATCH / seconds, 1000 * used / batches


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=40, help="batches in each timing")
    parser.add_argument(
        "--rounds", type=int, default=5, help="timings of each variant, after a warm-up"
    )
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    images = torch.randint(0, 256, (arguments.batches * BATCH, 3, *SIZE), dtype=torch.uint8)

    def loader(workers: int) -> DataLoader:
        return DataLoader(
            TwoViews(images),
            BATCH,
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )

    def with_threads(threads: int) -> Callable[[], Iterator]:
        def epoch() -> Iterator:
            torch.set_num_threads(threads)
            yield from batched(images, arguments.batches)

        return epoch

    variants = {
        "PIL, DataLoader, 0 workers": loader(0).__iter__,
        f"PIL, DataLoader, {cores} workers": loader(cores).__iter__,
        "TrueNeg, 1 thread": with_threads(1),
        f"TrueNeg, {cores} threads": with_threads(cores),
    }
    measured = {name: [] for name in variants}
    for _ in range(1 + arguments.rounds):
        for name, epoch in variants.items():
            measured[name].append(measure(epoch))
    # round 0 starts the workers
    speeds = {name: [speed for speed, _ in values[1:]] for name, values in measured.items()}
    used = {
        name: statistics.median(cpu for _, cpu in values[1:]) for name, values in measured.items()
    }
    median = {name: statistics.median(values) for name, values in speeds.items()}
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, {cores} cores\n")
    print(
        "| variant | images/s (two views each) | slowest … fastest | × 0 workers | × all workers |"
        " CPU ms per batch |"
    )
    print("|---|---|---|---|---|---|")
    baselines = list(median.values())[:2]
    for name, values in speeds.items():
        ratios = " | ".join(f"{median[name] / baseline:.1f}" for baseline in baselines)
        own = "(in the workers)" if f"{cores} workers" in name else f"{used[name]:.1f}"
        print(
            f"| {name} | {median[name]:,.0f} | {min(values):,.0f} … {max(values):,.0f} | {ratios} |"
            f" {own} |"
        )


if __name__ == "__main__":
    main()

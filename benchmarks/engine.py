"""Measure the speed of SimCLR's whole training step with a ResNet-18 on one device, alone, side by
side, and against lightly.

    pip install lightly
    python benchmarks/engine.py --device cuda --table benchmarks/engine.md

The run is CL on CIFAR10-0.1 of ``config/papers/ssd.yaml``: 27,500 images of 32×32, two views, 128
images per update. Pixels are random, which does not affect speed. An epoch of each variant,
including its draws of augmentations, is timed after a warm-up epoch, ``--rounds`` times in turns.
The share is that of a large bfloat16 (CPU: float32) matrix product on the same device; operations
are counted as three forward passes of the network. lightly's step has its own network, transforms
and loss, and loader processes, one for each core.
"""

import argparse
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import torch
import torch.multiprocessing
from lightly.loss import NTXentLoss
from lightly.models import ResNetGenerator
from lightly.models.modules import SimCLRProjectionHead
from lightly.transforms import SimCLRTransform
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from trueneg.config.reading import read_configuration
from trueneg.config.runs import all_runs
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.subsets import DRAWING, make_subset
from trueneg.models.image_encoders import build_encoder
from trueneg.runtime.precision import forward_dtype
from trueneg.training.simclr import SimCLR

CONFIGURATION = Path(__file__).resolve().parents[1] / "config/papers/ssd.yaml"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 8192  # side of the matrices


def training(arguments: argparse.Namespace, compiled: bool) -> SimCLR:
    """Return CL's run on random images, long enough for any number of epochs."""
    count = arguments.images
    study = read_configuration([str(CONFIGURATION)]).studies["cifar10"]
    run = next(
        run
        for run in all_runs("cifar10", study)
        if run.objective == "CL" and run.settings["dataset"]["fraction"] == 0.1
    )
    settings = run.to_json()["settings"]
    settings["training"] |= {
        "compile": compiled,
        "epochs": 10_000,
        "batch_size": arguments.batch_size,
    }
    draws = np.random.default_rng(0)
    images = draws.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    source = ImageSource(
        "random", images, np.arange(count) % len(CLASSES), np.arange(count) < 0, CLASSES
    )
    drawing = {key: settings["dataset"][key] for key in DRAWING} | {"test": 0.02, "validation": 0}
    return SimCLR(
        settings,
        run.seed,
        source,
        make_subset(source, seed=run.seed, **drawing),
        torch.device(arguments.device),
    )


def views_per_second(run: SimCLR) -> float:
    # its row reads the monitors, which waits for the device
    return run.train_epoch()["views_per_second"]


class Pixels(Dataset):
    """The run's images as lightly transforms them: one by one, with PIL."""

    def __init__(self, images: np.ndarray) -> None:
        self.images = images
        self.transform = SimCLRTransform(input_size=32, gaussian_blur=0.5)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> list[torch.Tensor]:
        return self.transform(Image.fromarray(self.images[index]))


class Lightly:
    """SimCLR built from lightly's parts, as its CIFAR-10 benchmark combines them."""

    def __init__(
        self, images: torch.Tensor, batch_size: int, device: torch.device, half: bool
    ) -> None:
        pixels = Pixels(images.permute(0, 2, 3, 1).cpu().numpy())
        workers = len(os.sched_getaffinity(0))
        self.loader = DataLoader(
            pixels,
            batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            pin_memory=device.type == "cuda",
        )
        backbone = nn.Sequential(
            *list(ResNetGenerator("resnet-18").children())[:-1],
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.network = nn.Sequential(backbone, SimCLRProjectionHead(512, 512, 128)).to(device)
        self.loss = NTXentLoss(temperature=0.5)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4
        )
        self.device, self.half = device, half

    def views_per_second(self) -> float:
        began = time.perf_counter()
        for first, second in self.loader:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
                embedded = [
                    self.network(view.to(self.device, non_blocking=True))
                    for view in (first, second)
                ]
                loss = self.loss(*embedded)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        loss.item()
        return 2 * len(self.loader) * self.loader.batch_size / (time.perf_counter() - began)


def product_rate(device: torch.device) -> float:
    """Return the FLOP/s of large matrix products of random numbers, in the data type of forward
    passes.
    """
    left, right = torch.randn(2, SIDE, SIDE, device=device, dtype=forward_dtype(device))
    rates = []
    for _ in range(5):
        began = time.perf_counter()
        (left @ right)[0, 0].item()
        rates.append(2 * SIDE**3 / (time.perf_counter() - began))
    return statistics.median(rates[1:])


def beside(rank: int, arguments: argparse.Namespace, compiled: bool, barrier, results) -> None:
    """Train an epoch beside other processes, after a warm-up epoch, and put the views per second
    into ``results``.
    """
    torch.set_num_threads(1)
    run = training(arguments, compiled)
    run.train_epoch()
    barrier.wait()
    results.put(views_per_second(run))


def side_by_side(count: int, arguments: argparse.Namespace, compiled: bool) -> float:
    """Return the views per second of several runs together, each in a process of its own."""
    context = torch.multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(count), context.SimpleQueue()
    torch.multiprocessing.spawn(beside, (arguments, compiled, barrier, results), count)
    return sum(results.get() for _ in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=3, help="timed epochs of each variant")
    parser.add_argument(
        "--runs", type=int, nargs="+", default=[1, 2, 3], help="numbers of runs side by side"
    )
    parser.add_argument("--images", type=int, default=50_000, help="before imbalance is applied")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--table", type=Path, help="where to write the table, in Markdown")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.set_num_threads(1)  # as the jobs of the study
    runs = {"plain": training(arguments, False), "compiled": training(arguments, True)}
    timed = {name: lambda run=run: views_per_second(run) for name, run in runs.items()}
    images = runs["plain"].data.images
    timed["lightly, float32"] = Lightly(
        images, arguments.batch_size, device, False
    ).views_per_second
    if forward_dtype(device) == torch.bfloat16:
        timed["lightly, bfloat16"] = Lightly(
            images, arguments.batch_size, device, True
        ).views_per_second
    for epoch in timed.values():
        epoch()
    rates = {name: [] for name in timed}
    for _ in range(arguments.rounds):
        for name, epoch in timed.items():
            rates[name].append(epoch())
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        build_encoder("resnet18", in_channels=3)(torch.empty(1, 3, 32, 32))
    flops, product = 3 * counter.get_total_flops(), product_rate(device)
    processor = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else torch.backends.cpu.get_cpu_capability()
    )
    dtype = str(forward_dtype(device)).removeprefix("torch.")
    lines = [
        "# SimCLR's training step",
        "",
        f"    python benchmarks/engine.py --device {arguments.device} --rounds {arguments.rounds}",
        "",
        (
            f"ResNet-18, {len(images):,} images, 32×32, {arguments.batch_size} per update;"
            f" {flops / 3e9:.2f} GFLOP per forward pass. {processor}; Python"
            f" {platform.python_version()}, torch {torch.__version__}."
        ),
        f"A {dtype} matrix product of side {SIDE:,} reaches {product / 1e12:.1f} TFLOP/s.",
        "",
        "| one run | views/s | lowest … highest | share of the product |",
        "|---|--:|---|--:|",
    ]
    for name, values in rates.items():
        rate = statistics.median(values)
        lines.append(
            f"| {name} | {rate:,.0f} | {min(values):,.0f} … {max(values):,.0f} |"
            f" {rate * flops / product:.1%} |"
        )
    lines += ["", "| runs side by side | views/s, plain | views/s, compiled |", "|---|--:|--:|"]
    for count in arguments.runs:
        together = [side_by_side(count, arguments, compiled) for compiled in (False, True)]
        lines.append(f"| {count} | {together[0]:,.0f} | {together[1]:,.0f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.table:
        arguments.table.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

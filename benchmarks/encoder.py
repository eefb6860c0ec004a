"""Measure the speed of ResNet-18 on CIFAR-size images, forward and backward, as a share of the
speed of a matrix product.

Run it on an idle machine:

    python benchmarks/encoder.py [--rounds 3] [--threads N]

It prints a Markdown table. In every round, each variant is timed between two large float32 matrix
products in the same process, so that other work affects both; the share is the median over rounds
of (variant / mean of the two products). Operations are counted as three forward passes of the
convolutions: batch norms, ReLUs, loss and optimiser take time but are not counted. The last rows
are a whole training step: two augmented views of 128 images, forward, debiased contrastive loss,
backward, Adam; and the same with ``training.compile``.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from trueneg.losses import build
from trueneg.models.image_encoders import build_encoder
from trueneg.models.projection import ProjectionHead
from trueneg.training.augment import ColorAugmentation
from trueneg.training.simclr import compiled_embedding, embed_views

SHAPE = (3, 32, 32)
SIDE = 4096  # side of the matrices
VIEWS = (64, 128, 256)  # in a batch


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def product_rate() -> float:
    """Return the GFLOP/s of a large float32 matrix product."""
    left, right = torch.ones(SIDE, SIDE), torch.ones(SIDE, SIDE)
    return 2 * SIDE**3 / seconds(lambda: left @ right) / 1e9


def forward_backward(batch: int, layout: torch.memory_format) -> Callable[[], object]:
    encoder = build_encoder("resnet18", in_channels=3).to(memory_format=layout)
    images = torch.randn(batch, *SHAPE).contiguous(memory_format=layout)

    def work() -> None:
        encoder.zero_grad(set_to_none=True)
        encoder(images).square().mean().backward()

    return work


def whole_step(batch: int, embed: Callable[..., Tensor]) -> Callable[[], object]:
    """Return a function that runs a training step on ``batch`` views: half as many images, two
    views each.

    Args:
        batch: number of views.
        embed: plain or compiled embedding from :mod:`trueneg.training.simclr`.
    """
    encoder = build_encoder("resnet18", in_channels=3)
    network = nn.Sequential(encoder, ProjectionHead(encoder.dimensions)).to(
        memory_format=torch.channels_last
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-6, fused=True)
    loss = build({"name": "dcl", "class_probability": 0.1}, temperature=0.5)
    augmentation = ColorAugmentation(mean=[0.49, 0.48, 0.45], std=[0.25, 0.24, 0.26])
    images = torch.randint(0, 256, (batch // 2, *SHAPE), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(0)

    def work() -> None:
        parameters = [augmentation.draw(len(images), SHAPE[1:], generator) for _ in range(2)]
        optimizer.zero_grad(set_to_none=True)
        loss(*embed(network, augmentation, images, parameters).chunk(2)).backward()
        optimizer.step()

    return work


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="timings of each variant, after a warm-up"
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="intra-op threads"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    variants = {
        ("contiguous", VIEWS[-1]): forward_backward(VIEWS[-1], torch.contiguous_format),
        **{
            ("channels_last", batch): forward_backward(batch, torch.channels_last)
            for batch in VIEWS
        },
        ("whole step, channels_last", VIEWS[-1]): whole_step(VIEWS[-1], embed_views),
        ("whole step, compiled", VIEWS[-1]): whole_step(VIEWS[-1], compiled_embedding()),
    }
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        build_encoder("resnet18", in_channels=3)(torch.empty(1, *SHAPE))
    # the forward pass, and two products per layer in the backward pass
    flops = 3 * counter.get_total_flops()
    rates = {variant: [] for variant in variants}
    shares = {variant: [] for variant in variants}
    products = [product_rate()]
    for _ in range(1 + arguments.rounds):
        for (name, batch), work in variants.items():
            rate = batch * flops / seconds(work) / 1e9
            products.append(product_rate())
            rates[name, batch].append(rate)
            shares[name, batch].append(2 * rate / (products[-2] + products[-1]))
    print(
        f"torch {torch.__version__}, {arguments.threads} threads, {flops / 3e9:.2f} GFLOP per"
        " forward pass"
    )
    print(f"float32 matrix product of side {SIDE}: {statistics.median(products):.0f} GFLOP/s\n")
    print("| variant | views | GFLOP/s | views/s | share of the product | lowest … highest |")
    print("|---|---|---|---|---|---|")
    for (name, batch), values in rates.items():
        rate, counted = statistics.median(values[1:]), shares[name, batch][1:]
        spread = f"{min(counted):.0%} … {max(counted):.0%}"
        print(
            f"| {name} | {batch} | {rate:.0f} | {rate / flops * 1e9:.0f} |"
            f" {statistics.median(counted):.0%} | {spread} |"
        )


if __name__ == "__main__":
    main()

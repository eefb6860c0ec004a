"""Compare time and memory of the losses with their peers: lightly's NTXentLoss, OpenCLIP's ClipLoss
and plain PyTorch.

    pip install lightly open_clip_torch
    python benchmarks/losses.py --threads 2 --table benchmarks/losses.md
    python benchmarks/losses.py --device cuda --table benchmarks/losses_gpu.md

For each batch size, all losses take turns in one process, forward and backward, so that other work
on the machine affects all of them; the tables give medians over turns. Peak memory is the largest
resident size of a separate process (Linux), or what was allocated on the GPU.
"""

import argparse
import functools
import math
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import torch
from lightly.loss import NTXentLoss
from open_clip import ClipLoss
from open_clip.loss import SigLipLoss
from torch.nn import functional

from trueneg.losses import (
    Bayesian,
    ContrastiveLoss,
    Debiased,
    Guided,
    HardNegative,
    OpenClipLoss,
    Quantile,
    RelaxedContrastiveLoss,
    Removed,
    Sigmoid,
    SupConLoss,
    Uncorrected,
    build,
)

BATCHES, SMALL_BATCHES, PEAK_BATCH = (64, 512, 4096), (64, 128), 16_384
PEER_BATCHES = (128, 512, 2048)
GPU_BATCHES, GPU_PEAK_BATCHES = (512, 4096, 16_384), (16_384, 65_536)
ESTIMATORS = {
    "CL": Uncorrected(),
    "DCL": Debiased(0.1),
    "HCL": HardNegative(1.0, 0.1),
    "BCL paper": Bayesian(0.8, 1.0, 0.1),
    "BCL consistent": Bayesian(0.8, 1.0, 0.1, "consistent"),
}
PEAK = """
import pathlib, re, time, torch
from trueneg.losses import ContrastiveLoss, Debiased
torch.set_num_threads({threads})
z1, z2 = torch.randn(2, {batch}, 128, requires_grad=True)
loss = ContrastiveLoss(Debiased(0.1), chunk_size={chunk})
begun = time.perf_counter()
loss(z1, z2).backward()
seconds = time.perf_counter() - begun
# Not ru_maxrss, which a process inherits from the one that started it.
kibibytes = int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
print(kibibytes / 2**20, seconds)
"""


def plain_cl(z1, z2, temperature=0.5):
    """Compute CL directly from its equation; :func:`plain_dcl` and :func:`plain_hcl` do the same
    for DCL and HCL.
    """
    z = functional.normalize(torch.cat((z1, z2)), dim=1)
    logits = (z @ z.T / temperature).fill_diagonal_(-math.inf)
    return functional.cross_entropy(logits, torch.arange(len(z)).roll(len(z1)))


def plain_dcl(z1, z2, temperature=0.5, eta=0.1):
    z, count = functional.normalize(torch.cat((z1, z2)), dim=1), 2 * len(z1) - 2
    logits = z @ z.T / temperature
    positive = torch.cat((logits.diagonal(len(z1)), logits.diagonal(-len(z1))))
    own = torch.eye(len(z1), dtype=torch.bool).repeat(2, 2)
    log_sum = logits.masked_fill(own, -math.inf).logsumexp(1)
    largest = torch.maximum(log_sum, positive).detach()
    mass = ((log_sum - largest).exp() - count * eta * (positive - largest).exp()) / (1 - eta)
    mass = torch.maximum(mass, count * (-1 / temperature - largest).exp())
    return functional.softplus(mass.log() + largest - positive).mean()


def plain_hcl(z1, z2, temperature=0.5, eta=0.1, beta=1.0):
    z, count = functional.normalize(torch.cat((z1, z2)), dim=1), 2 * len(z1) - 2
    logits = z @ z.T / temperature
    positive = torch.cat((logits.diagonal(len(z1)), logits.diagonal(-len(z1))))
    negatives = logits.masked_fill(torch.eye(len(z1), dtype=torch.bool).repeat(2, 2), -math.inf)
    log_sum = (
        ((1 + beta) * negatives).logsumexp(1) - (beta * negatives).logsumexp(1) + math.log(count)
    )
    largest = torch.maximum(log_sum, positive).detach()
    mass = ((log_sum - largest).exp() - count * eta * (positive - largest).exp()) / (1 - eta)
    mass = torch.maximum(mass, count * (-1 / temperature - largest).exp())
    return functional.softplus(mass.log() + largest - positive).mean()


def plain_guided(z1, z2, similarity, of_positive, temperature=0.5):
    z, count = functional.normalize(torch.cat((z1, z2)), dim=1), len(z1)
    own = torch.eye(count, dtype=torch.bool).repeat(2, 2)
    positives = torch.eye(count, dtype=torch.bool).repeat(2, 2) & ~torch.eye(2 * count).bool()
    left_out = (own | (similarity > of_positive[:, None])) & ~positives
    logits = (z @ z.T / temperature).masked_fill(left_out, -math.inf)
    return functional.cross_entropy(logits, torch.arange(2 * count).roll(count))


def plain_supcon(z1, z2, labels, temperature=0.1):
    z, labels = functional.normalize(torch.cat((z1, z2)), dim=1), labels.repeat(2)
    itself = torch.eye(len(z), dtype=torch.bool)
    logits = (z @ z.T / temperature).masked_fill(itself, -math.inf)
    same = (labels[:, None] == labels) & ~itself
    log_share = logits - logits.logsumexp(1, keepdim=True)
    return -(log_share.masked_fill(~same, 0).sum(1) / same.sum(1)).mean()


PLAIN = {"CL": plain_cl, "DCL": plain_dcl, "HCL": plain_hcl}


def two_view(batch):
    """Return calls with lightly's signature at t = 0.5 and D = 128, and their inputs."""
    z1, z2 = torch.randn(2, batch, 128).unbind()
    inputs = [z1.requires_grad_(), z2.requires_grad_()]
    peer = NTXentLoss(temperature=0.5)
    losses = {name: ContrastiveLoss(estimator, 0.5) for name, estimator in ESTIMATORS.items()}
    calls = {"lightly NTXentLoss": peer} | losses
    if batch >= max(BATCHES):
        calls["CL in chunks of 1024"] = ContrastiveLoss(Uncorrected(), 0.5, chunk_size=1024)
    return {name: lambda loss=loss: loss(z1, z2) for name, loss in calls.items()}, inputs


def marking(batch):
    """Return calls of CL and of losses that decide which negatives are false, with a guide's
    similarities; and their inputs.
    """
    z1, z2 = torch.randn(2, batch, 128).unbind()
    inputs = [z1.requires_grad_(), z2.requires_grad_()]
    guide = {
        "negative_similarity": torch.rand(2 * batch, 2 * batch),
        "positive_similarity": 0.5 + 0.5 * torch.rand(2 * batch),
        "unused": "ignore",
    }
    losses = {
        "CL": (ContrastiveLoss(Uncorrected()), {}),
        "CL, decoupled": (ContrastiveLoss(Uncorrected(), decoupled=True), {}),
        "guided": (ContrastiveLoss(Guided()), guide),
        "quantile, 1 %": (ContrastiveLoss(Quantile(0.01)), {}),
        "quantile, 10 %": (ContrastiveLoss(Quantile(0.1)), {}),
        "FNC, elimination": (ContrastiveLoss(Removed(0.7, top_k=10)), guide),
        "FNC, attraction": (
            build({"name": "cl", "targets": {"name": "fnc", "threshold": 0.7, "top_k": 10}}),
            guide,
        ),
    }
    return {
        name: lambda loss=loss, known=known: loss(z1, z2, **known)
        for name, (loss, known) in losses.items()
    }, inputs


def cross_modal(batch):
    """Return calls with OpenCLIP's signature at a logit scale of 14 and D = 512, and their
    inputs.
    """
    image, text = (torch.nn.functional.normalize(torch.randn(batch, 512), dim=-1) for _ in range(2))
    scale = torch.tensor(14.0)
    inputs = [image.requires_grad_(), text.requires_grad_(), scale.requires_grad_()]
    losses = {name: OpenClipLoss(estimator) for name, estimator in ESTIMATORS.items()}
    calls = {"OpenCLIP ClipLoss": ClipLoss()} | losses
    timed = {name: lambda loss=loss: loss(image, text, scale) for name, loss in calls.items()}
    reco = RelaxedContrastiveLoss()
    return timed | {"ReCo": lambda: reco(image, text)}, inputs


def beside_peers(batch):
    """Return calls of losses after their peers, at D = 128, checked to be equal; and their
    inputs.
    """
    z1, z2 = torch.randn(2, batch, 128).unbind()
    image, text = (functional.normalize(torch.randn(batch, 128), dim=-1) for _ in range(2))
    inputs = [each.requires_grad_() for each in (z1, z2, image, text)]
    scale, bias = torch.tensor(10.0), torch.tensor(-10.0)
    similarity, of_positive = torch.rand(2 * batch, 2 * batch), 0.5 + 0.5 * torch.rand(2 * batch)
    labels = torch.arange(batch) % 10
    sigmoid, clip = OpenClipLoss(Sigmoid(-10.0, learned_bias=False)), OpenClipLoss(Uncorrected())
    siglip, openclip = SigLipLoss(), ClipLoss()
    guided, supcon = ContrastiveLoss(Guided(), 0.5), SupConLoss(0.1)
    calls = {
        "OpenCLIP's SigLipLoss": lambda: siglip(image, text, scale, bias),
        "Sigmoid": lambda: sigmoid(image, text, scale),
        "OpenCLIP's ClipLoss": lambda: openclip(image, text, scale),
        "CLIP": lambda: clip(image, text, scale),
        "plain Guided": lambda: plain_guided(z1, z2, similarity, of_positive),
        "Guided": lambda: guided(
            z1, z2, negative_similarity=similarity, positive_similarity=of_positive
        ),
        "plain SupCon": lambda: plain_supcon(z1, z2, labels),
        "SupCon": lambda: supcon(z1, z2, labels=labels),
    }
    values = [call() for call in calls.values()]
    for peer, own in zip(values[::2], values[1::2], strict=True):
        torch.testing.assert_close(own, peer, rtol=1e-4, atol=1e-5)
    return calls, inputs


def beside_plain(batch):
    """Return calls of each loss after its plain implementation, checked to be equal; and their
    inputs.
    """
    z1, z2 = torch.randn(2, batch, 128).unbind()
    inputs, calls = [z1.requires_grad_(), z2.requires_grad_()], {}
    for name, plain in PLAIN.items():
        loss = ContrastiveLoss(ESTIMATORS[name], 0.5)
        torch.testing.assert_close(loss(z1, z2), plain(z1, z2))
        calls[f"plain {name}"] = lambda plain=plain: plain(z1, z2)
        calls[name] = lambda loss=loss: loss(z1, z2)
    return calls, inputs


def milliseconds(call, inputs):
    """Time a call, backward pass included; NaN if the GPU has too little memory."""
    for each in inputs:
        each.grad = None
    begun = time.perf_counter()
    try:
        call().backward()
    except torch.OutOfMemoryError:
        return math.nan
    if inputs[0].is_cuda:
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begun)


def medians(calls, inputs, seconds):
    """Return each call's median milliseconds, backward pass included; calls take turns for this
    long, at least three times.
    """
    taken = {name: [] for name in calls if not math.isnan(milliseconds(calls[name], inputs))}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken[next(iter(taken))]) < 3:
        for name, times in taken.items():
            times.append(milliseconds(calls[name], inputs))
    return {name: statistics.median(taken[name]) if name in taken else math.nan for name in calls}


def table(title, make, batches, seconds):
    columns = {batch: medians(*make(batch), seconds) for batch in batches}
    names = list(columns[batches[-1]])
    lines = [f"## {title}", "", "| | " + " | ".join(f"B = {batch:,}" for batch in batches) + " |"]
    lines.append("|---|" + "---|" * len(batches))
    for name in names:
        cells = []
        for batch in batches:
            times = columns[batch]
            peer = times[names[0]]
            cells.append(
                f"{times[name]:,.2f} ms ({times[name] / peer:.2f}×)" if name in times else ""
            )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def pair_table(title, make, batches, seconds):
    """Tabulate each loss beside its peer, the call before it."""
    columns = {batch: medians(*make(batch), seconds) for batch in batches}
    lines = [f"## {title}", ""]
    lines += [
        "| | " + " | ".join(f"B = {batch:,}" for batch in batches) + " |",
        "|---|" + "---|" * len(batches),
    ]
    names = list(columns[batches[0]])
    for peer, name in zip(names[::2], names[1::2], strict=True):
        cells = [
            f"{times[name]:.2f} ms, {peer} {times[peer]:.2f} ms ({times[name] / times[peer]:.2f}×)"
            for times in columns.values()
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def peaks(threads):
    lines = [
        f"## Peak memory, two views, DCL, B = {PEAK_BATCH:,}, D = 128, in chunks",
        "",
        "| chunk_size | peak of the process, torch included | seconds |",
        "|---|---|---|",
    ]
    for chunk in (256, 1024):
        code = PEAK.format(threads=threads, batch=PEAK_BATCH, chunk=chunk)
        finished = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        gibibytes, seconds = map(float, finished.stdout.split())
        lines.append(f"| {chunk} | {gibibytes:.2f} GiB | {seconds:.0f} |")
    return [*lines, ""]


def gpu_peaks():
    """Tabulate memory and time of both views' losses and of both modalities', whole and in chunks,
    on the GPU.
    """
    lines = [
        "## Peak memory on the GPU, inputs included",
        "",
        "| | B | peak | time |",
        "|---|--:|--:|--:|",
    ]
    whole, estimator = min(GPU_PEAK_BATCHES), ESTIMATORS["CL"]
    for batch in GPU_PEAK_BATCHES:
        (views, view_inputs), (modalities, pair_inputs) = two_view(batch), cross_modal(batch)
        z1, z2 = view_inputs
        chunked = {
            f"CL in chunks of {size:,}": ContrastiveLoss(estimator, 0.5, chunk_size=size)
            for size in (256, 1024, 4096)
        }
        calls = {
            name: (functools.partial(loss, z1, z2), view_inputs) for name, loss in chunked.items()
        }
        if batch == whole:
            calls |= {
                name: (views[name], view_inputs) for name in ("lightly NTXentLoss", "CL", "DCL")
            }
            calls |= {
                f"{name}, two modalities": (modalities[name], pair_inputs)
                for name in ("OpenCLIP ClipLoss", "CL")
            }
        for name, (call, inputs) in calls.items():
            milliseconds(call, inputs)
            torch.cuda.reset_peak_memory_stats()
            taken = milliseconds(call, inputs)
            peak = torch.cuda.max_memory_allocated() / 2**30
            lines.append(f"| {name} | {batch:,} | {peak:.2f} GiB | {taken:,.0f} ms |")
    return [*lines, ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="for each batch size of each table"
    )
    parser.add_argument("--table", type=Path, help="where to write the table, in Markdown")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_default_device(arguments.device)
    torch.manual_seed(0)
    on_gpu = arguments.device != "cpu"
    batches = GPU_BATCHES if on_gpu else BATCHES
    cpu = (
        f"{platform.machine()} CPU, {arguments.threads} thread(s),"
        f" {torch.backends.cpu.get_cpu_capability()}"
    )
    options = f"--device {arguments.device}" if on_gpu else f"--threads {arguments.threads}"
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("torch", "lightly", "open_clip_torch")
    )
    lines = [
        "# The losses compared with their peers",
        "",
        (
            "Median time of forward and backward, float32, with the ratio to the peer (below 1 is"
            " faster), at least three turns."
        ),
        "",
        f"* Command: `python benchmarks/losses.py {options} --seconds {arguments.seconds:g}`",
        f"* Versions: Python {platform.python_version()}, {versions}",
        f"* Machine: {torch.cuda.get_device_name() if on_gpu else cpu}",
        "",
        *table("Two views, t = 0.5, D = 128", two_view, batches, arguments.seconds),
        *pair_table(
            "Two views, against a plain implementation of the same loss",
            beside_plain,
            SMALL_BATCHES,
            arguments.seconds,
        ),
        *pair_table("Against peers, D = 128", beside_peers, PEER_BATCHES, arguments.seconds),
        *table(
            "Which negatives are false, two views, t = 0.5, D = 128",
            marking,
            batches[:2],
            arguments.seconds,
        ),
        *table("Two modalities, logit scale 14, D = 512", cross_modal, batches, arguments.seconds),
        *(gpu_peaks() if on_gpu else peaks(arguments.threads)),
    ]
    text = "\n".join(lines)
    print(text)
    if arguments.table:
        arguments.table.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

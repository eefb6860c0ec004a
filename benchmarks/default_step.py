"""Time an update of the default study (digits), plain and compiled, and measure the share of
convolutions.

Run it on an idle machine:

    python benchmarks/default_step.py [--epochs 20]

Plain and compiled training take turns, one epoch each, in one process with one thread; compare them
by their ratio.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from trueneg.config.reading import read_configuration
from trueneg.config.runs import all_runs
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import DRAWING, make_subset
from trueneg.training.simclr import SimCLR

CONFIGURATION = Path(__file__).resolve().parents[1] / "config/config.yaml"


def training(objective: str, compiled: bool) -> SimCLR:
    """Return the objective's run with the first seed, long enough for any number of epochs."""
    study = read_configuration([str(CONFIGURATION)]).studies["digits"]
    runs = [run for run in all_runs("digits", study) if run.objective == objective]
    settings = runs[0].to_json()["settings"]
    settings["training"] |= {"compile": compiled, "epochs": 10_000}
    source = load_source("digits")
    subset = make_subset(
        source, seed=runs[0].seed, **{key: settings["dataset"][key] for key in DRAWING}
    )
    return SimCLR(settings, runs[0].seed, source, subset, torch.device("cpu"))


def milliseconds(run: SimCLR) -> float:
    """Return the mean duration of an update over one epoch."""
    began = time.perf_counter()
    run.train_epoch()
    return 1000 * (time.perf_counter() - began) / run.updates_per_epoch


def convolution_share(run: SimCLR) -> float:
    """Return the share of an epoch's CPU time that convolutions and their gradients take."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        run.train_epoch()
    events = profiled.key_averages()
    taken = {event.key: event.self_cpu_time_total for event in events}
    convolutions = sum(
        value
        for name, value in taken.items()
        if "mkldnn_convolution" in name or "convolution_backward" in name
    )
    return convolutions / sum(taken.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=20, help="timed epochs of each variant")
    parser.add_argument("--objectives", nargs="+", default=["CL", "DCL", "HCL", "BCL", "Oracle"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, 1 thread, {torch.backends.cpu.get_cpu_capability()}\n")
    print(
        "| objective | plain, ms per update | compiled | compiled / plain | convolutions, share of"
        " plain |"
    )
    print("|---|---|---|---|---|")
    for objective in arguments.objectives:
        plain, compiled = training(objective, False), training(objective, True)
        turns = [
            (milliseconds(plain), milliseconds(compiled)) for _ in range(1 + arguments.epochs)
        ][1:]
        first, second = (statistics.median(times) for times in zip(*turns, strict=True))
        ratio = statistics.median(after / before for before, after in turns)
        print(
            f"| {objective} | {first:.1f} | {second:.1f} | {ratio:.2f} |"
            f" {convolution_share(plain):.0%} |"
        )


if __name__ == "__main__":
    main()

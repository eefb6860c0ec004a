"""Measure the processor time and the memory of mining hard negatives, and of drawing an epoch's.

python benchmarks/mining.py --texts 10000 100000
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from trueneg.data.mining import Mined, mine
from trueneg.data.samples import Subset
from trueneg.data.texts.hard_negatives import HardNegatives
from trueneg.data.texts.text_source import TextSource
from trueneg.specs.hard_negatives import HardNegativeSettings

DIMENSIONS = 384  # of MiniLM


def measured(count: int, folder: str) -> list[str]:
    """Mine from texts with random vectors; return the number of texts, the seconds of processor
    time of mining and of drawing an epoch, and the process's peak memory in GiB.
    """
    generator = np.random.default_rng(0)
    sentences = pd.DataFrame(
        {"sentence": [f"text {number}" for number in range(count)], "class": -1, "split": ""}
    )
    source = TextSource("made up", sentences, np.empty((0, 2), np.int64), ())
    vectors = generator.standard_normal((count, DIMENSIONS), dtype=np.float32)
    rows = np.arange(count)
    subset = Subset(0, source.checksum, rows, rows[:0])
    cache = Path(folder, str(count))
    began = time.process_time()
    mined = mine(source, subset, vectors, cache)
    mining = time.process_time() - began
    settings = HardNegativeSettings(num_negatives=10, relative_margin=0.05).model_dump()
    mined = Mined(*map(np.array, mined))  # in memory, as training reads it
    found = HardNegatives(settings, mined, rows, vectors, np.full(count, -1), None)
    began = time.process_time()
    anchors = torch.arange(count)
    found.draw(anchors, anchors.roll(1), torch.Generator())
    drawing = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [f"{count:,}", f"{mining:.0f}", f"{drawing:.1f}", f"{peak:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, nargs="+", default=[10_000, 100_000])
    torch.set_num_threads(1)
    print("| texts | mining (s) | an epoch's draws (s) | peak memory (GiB) |\n|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for count in parser.parse_args().texts:
            print(f"| {' | '.join(measured(count, folder))} |", flush=True)


if __name__ == "__main__":
    main()

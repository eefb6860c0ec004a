"""Evaluate Lemma 2 of Sample-Specific Debiasing on the pixels of CIFAR10-r.

    python benchmarks/lemma_2.py data/cifar10

As the theory study does on digits (docs/theory.md): centred pixels are the features, and classes 5
to 9 keep a fraction r of their images. The first 1,000 images of each class are taken, because the
losses need all pairs of images.
"""

import sys

import numpy as np
import torch

from trueneg.data.images.sources.cifar10 import load
from trueneg.data.imbalance import imbalanced_indices
from trueneg.theory.transfer import lemma_2

PER_CLASS = 1000
FRACTIONS = (0.1, 0.5, 1.0)
NEGATIVES = (1, 4, 16, 64, 256)


def main() -> None:
    training = load(sys.argv[1])
    of_class = [np.flatnonzero(training.labels == label)[:PER_CLASS] for label in range(10)]
    chosen = np.sort(np.concatenate(of_class))
    for fraction in FRACTIONS:
        rows = chosen[imbalanced_indices(training.labels[chosen], fraction, range(5, 10), seed=0)]
        pixels = torch.from_numpy(training.images[rows]).flatten(1).double()
        labels = torch.from_numpy(training.labels[rows])
        table = lemma_2(pixels - pixels.mean(0), labels, NEGATIVES, temperature=0.5)
        print(f"r = {fraction}, {len(rows)} images\n{table.to_string(index=False)}\n")


if __name__ == "__main__":
    main()

"""What a classifier reaches without looking at the images: the share of each split's largest
class.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from trueneg.evaluation.images import EncodedRun, Measured
from trueneg.specs.sections import Section
from trueneg.specs.tasks.images import LARGEST_CLASS


def measure(runs: Sequence[EncodedRun], settings: Section) -> Iterator[Measured]:
    """Yield the share of the largest class in each held-out split."""
    for run in runs:
        for split in run.splits:
            labels = run.source.labels[getattr(run.subset, split)]
            yield run, split, LARGEST_CLASS, np.bincount(labels).max() / len(labels)

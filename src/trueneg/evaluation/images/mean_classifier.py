"""Mean classifier with the same label pools as k-nearest neighbours."""

import itertools
from collections.abc import Iterator, Sequence

from trueneg.evaluation.images import EncodedRun, Measured, chance, of_groups
from trueneg.evaluation.mean_classifier import mean_classifier
from trueneg.specs.sections import Section
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EncodedRun], settings: Section) -> Iterator[Measured]:
    """Yield accuracies for each label pool of ``knn``."""
    yield from chance(runs, "mean classifier")
    for run, pool in itertools.product(runs, settings["knn"]["label_pools"]):
        bank, labels = run.of(run.pool(pool))
        for split in run.splits:
            yield from of_groups(
                run,
                split,
                Measurement("mean classifier", "accuracy", pool),
                mean_classifier(bank, labels, run.of_split(split), classes=run.classes),
            )

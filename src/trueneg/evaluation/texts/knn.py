"""Classification of held-out texts by a vote of the nearest training texts."""

import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from sklearn.neighbors import KNeighborsClassifier

from trueneg.evaluation.per_sample import PerSample, of_balanced
from trueneg.evaluation.texts import EmbeddedTexts, Measured
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)


def measure(runs: Sequence[EmbeddedTexts], settings: Section) -> Iterator[Measured]:
    """Yield the accuracies of the vote of the k nearest texts, one vote each; among labels with
    equal votes, the first wins.

    With more neighbours than a rare label has texts, other labels could outvote it, however good
    the vectors.
    """
    for run, split, part, bank, samples in labelled_parts(runs):
        k = settings["knn"]["neighbours"]
        if (fewest := np.unique(run.labels(bank), return_counts=True)[1].min()) < k:
            log.warning(
                f"knn, {split} split, {part} labels, seed {run.subset.seed}: {fewest} neighbours"
                f" instead of {k}, because the smallest label has {fewest} training texts",
            )
        # by distance, which orders vectors of length 1 as their cosine does
        classifier = KNeighborsClassifier(min(k, fewest), algorithm="brute")
        yield from classified(run, split, part, bank, samples, task="knn", classifier=classifier)


def labelled_parts(
    runs: Sequence[EmbeddedTexts],
) -> Iterator[tuple[EmbeddedTexts, str, str, ndarray, ndarray]]:
    """Yield run, split, ``seen`` or ``unseen``, and positions of its training and held-out texts;
    nothing without labels, or where no held-out text has the label of a training text: labels that
    are groups of right answers, which no two splits share, are no classes.
    """
    for run, split in itertools.product(runs, SPLITS):
        for part, bank, samples in run.parts(split) if run.source.label_names else ():
            if np.isin(run.labels(samples), run.labels(bank)).any():
                yield run, split, part, bank, samples
            else:
                log.warning(
                    f"{split} split, {part} labels, seed {run.subset.seed}: not classified, because"
                    " no held-out text has the label of a training text",
                )


def classified(
    run: EmbeddedTexts,
    split: str,
    part: str,
    bank: ndarray,
    samples: ndarray,
    *,
    task: str,
    classifier: Any,
) -> Iterator[Measured]:
    """Yield a classifier's accuracy and its mean over labels, and what always answering the largest
    label or any one reaches.

    Args:
        run, split, part, bank, samples: from :func:`labelled_parts`.
        task: name of the classifier in the rows.
        classifier: a new classifier of scikit-learn.
    """
    texts, queries = (run.rows(positions).cpu().numpy() for positions in (bank, samples))
    labels = run.labels(samples)
    bank_labels = run.labels(bank)
    predicted = classifier.fit(texts, bank_labels).predict(queries)
    correct = predicted == labels
    names = np.array(run.source.label_names, object)
    classes = {"label": names[labels], "predicted": names[predicted]}
    accuracy = Measurement(task, "accuracy", part)
    chance = accuracy._replace(metric="chance")
    by_label = [correct[labels == label].mean() for label in np.unique(labels)]
    values = of_balanced(correct, labels)
    balanced = PerSample(float(np.mean(by_label)), samples, values, classes)
    yield run, split, accuracy, PerSample(correct.mean(), samples, correct, classes)
    yield run, split, accuracy._replace(group="macro"), balanced
    yield run, split, chance, np.bincount(labels).max() / len(labels)
    yield run, split, chance._replace(group="macro"), 1 / len(np.unique(bank_labels))

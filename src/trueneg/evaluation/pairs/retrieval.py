"""Retrieval between images and distinct sentences, and between images and distinct reports."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from trueneg.evaluation.pairs import EmbeddedPairs, Measured
from trueneg.evaluation.per_sample import PerSample
from trueneg.evaluation.retrieval import (
    Metric,
    chance_recall_both_ways,
    metrics_both_ways,
    ranks_both_ways,
)
from trueneg.evaluation.said import said_of
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield recalls, median ranks and chance recalls; the score of a report is the mean over its
    sentences.
    """
    ks = settings["retrieval"]["ks"]
    for run, split in itertools.product(runs, SPLITS):
        for task, labels, scores, relevant, images in _retrievals(run, split):
            if scores.size:
                best = ranks_both_ways(scores, relevant)
                values: dict[Metric, Any] = {**metrics_both_ways(best, ks)}
                for metric in values:
                    if metric.metric == "R" and metric.direction and metric.k:
                        hits = best[metric.direction] <= metric.k
                        if metric.direction == "text to image":
                            hits = of_first_image(hits, relevant)
                        values[metric] = PerSample(values[metric], images, hits)
                values |= chance_recall_both_ways(relevant, ks)
                yield from both_ways(run, split, Measurement(task, "", labels), values)


def of_first_image(hits: ndarray, relevant: ndarray) -> ndarray:
    """Return a value per image (n,) with the mean of the texts' hits (T,), each of which counts for
    the text's first relevant image (T, n): texts of one image are not independent.

    Example:
        >>> of_first_image(np.array([1, 1, 0]), np.array([[1, 0], [1, 0], [0, 1]])).round(3)
        array([1.333, 0.   ])
    """
    count = relevant.shape[1]
    return np.bincount(relevant.argmax(1), hits, count) * (count / len(hits))


def _retrievals(
    run: EmbeddedPairs, split: str
) -> Iterator[tuple[str, str, ndarray, ndarray, ndarray]]:
    """Yield task, relevance criterion, scores (texts, images), the mask of relevant pairs, and the
    positions of the images.
    """
    images = run.images(split)
    said = said_of(run.source, images.indices)
    scores = run.similarities(said.texts, split)
    yield "retrieval sentence", "report", scores, said.own, images.indices
    if run.source.shown.shape[1]:
        # Skip sentences that match no image, and images that no sentence matches.
        found = said.true.any(0)
        chosen = np.ix_(said.true.any(1), found)
        places = images.indices[found]
        yield "retrieval sentence", "truth", scores[chosen], said.true[chosen], places
    report_of_image = [said.by_report[report] for report in run.source.reports[images.indices]]
    distinct = list(dict.fromkeys(report_of_image))
    report_scores = np.stack([scores[list(report)].mean(0) for report in distinct])
    is_own = np.array(
        [[image_report == report for image_report in report_of_image] for report in distinct]
    )
    yield "retrieval report", "report", report_scores, is_own, images.indices


def both_ways(
    run: EmbeddedPairs,
    split: str,
    measured: Measurement,
    values: Mapping[Metric, float | PerSample],
) -> Iterator[Measured]:
    """Yield the values of the retrieval metrics in both directions."""
    for metric, value in values.items():
        yield run, split, measured._replace(**metric._asdict()), value

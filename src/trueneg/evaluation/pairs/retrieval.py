"""Retrieval between images and distinct sentences, and between images and distinct reports."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy import ndarray

from trueneg.evaluation.pairs import EmbeddedPairs, Measured
from trueneg.evaluation.retrieval import Metric, chance_recall_both_ways, retrieval_both_ways
from trueneg.evaluation.said import said_of
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield recalls, median ranks and chance recalls; the score of a report is the mean over its
    sentences.
    """
    for run, split in itertools.product(runs, SPLITS):
        for task, labels, scores, relevant in _retrievals(run, split):
            if scores.size:
                values = retrieval_both_ways(scores, settings["retrieval"]["ks"], relevant)
                values |= chance_recall_both_ways(relevant, settings["retrieval"]["ks"])
                yield from both_ways(run, split, Measurement(task, "", labels), values)


def _retrievals(run: EmbeddedPairs, split: str) -> Iterator[tuple[str, str, ndarray, ndarray]]:
    """Yield task, relevance criterion, scores (texts, images), and the mask of relevant pairs."""
    images = run.images(split)
    said = said_of(run.source, images.indices)
    scores = run.similarities(said.texts, split)
    yield "retrieval sentence", "report", scores, said.own
    if run.source.shown.shape[1]:
        # Skip sentences that match no image, and images that no sentence matches.
        chosen = np.ix_(said.true.any(1), said.true.any(0))
        yield "retrieval sentence", "truth", scores[chosen], said.true[chosen]
    report_of_image = [said.by_report[report] for report in run.source.reports[images.indices]]
    distinct = list(dict.fromkeys(report_of_image))
    report_scores = np.stack([scores[list(report)].mean(0) for report in distinct])
    is_own = np.array(
        [[image_report == report for image_report in report_of_image] for report in distinct]
    )
    yield "retrieval report", "report", report_scores, is_own


def both_ways(
    run: EmbeddedPairs, split: str, measured: Measurement, values: Mapping[Metric, float]
) -> Iterator[Measured]:
    """Yield the values of the retrieval metrics in both directions."""
    for metric, value in values.items():
        yield run, split, measured._replace(**metric._asdict()), value

"""Retrieval of positives, or of training texts with the label of a held-out text."""

import itertools
import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from scipy.sparse import csr_array
from scipy.stats import hypergeom
from torch import Tensor

from trueneg.evaluation.per_sample import PerSample
from trueneg.evaluation.retrieval import as_array, ranks
from trueneg.evaluation.texts import EmbeddedTexts, Measured
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.specs.tasks.texts.retrieval import CUTOFF
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)

BLOCK = 2**23  # similarities in memory at once
# Queries (Q, D); candidates (C, D); the group of each query; groups and candidates (two arrays)
# that belong together; and the candidate that is the query itself, which is left out (−1: none).
Search = tuple[Tensor, Tensor, ndarray, tuple[ndarray, ndarray], ndarray]


def measure(runs: Sequence[EmbeddedTexts], settings: Section) -> Iterator[Measured]:
    """Yield R@k with its chance level, the mean reciprocal rank, and nDCG; equal similarities count
    against the encoder.
    """
    for run, split in itertools.product(runs, SPLITS):
        for part, bank, samples in (
            run.parts(split) if len(run.source.pairs) or run.source.label_names else ()
        ):
            asked, search = (
                of_positives(run, samples)
                if len(run.source.pairs)
                else of_labels(run, bank, samples)
            )
            for metric, k, values in metrics(search, settings["retrieval"]["ks"]):
                measured = Measurement("retrieval", metric, part, k=k)
                yield run, split, measured, PerSample(values.mean(), asked, values)


def of_positives(run: EmbeddedTexts, samples: ndarray) -> tuple[ndarray, Search]:
    """Search distinct positives, other than the anchor itself, by distinct anchors, which are the
    groups; return the first sample of each anchor, too.

    All positives of equal anchors are relevant.
    """
    rows = run.source.pairs[samples, :2].T
    texts = run.source.text_numbers[samples, :2].T
    (asked, anchors, group), (found, positives, candidate) = (
        np.unique(side, return_index=True, return_inverse=True) for side in texts
    )
    own = pd.Index(found).get_indexer(asked)
    return samples[anchors], (
        run.anchors[rows[0, anchors]],
        run.positives[rows[1, positives]],
        np.arange(len(asked)),
        (group, candidate),
        own,
    )


def of_labels(run: EmbeddedTexts, bank: ndarray, samples: ndarray) -> tuple[ndarray, Search]:
    """Search training texts by held-out texts, whose labels are the groups; return the samples that
    can be answered, too.
    """
    labels = run.labels(samples)
    bank_labels = run.labels(bank)
    if not (answerable := np.isin(labels, bank_labels)).all():
        log.warning(
            f"retrieval: left out {np.count_nonzero(~answerable)} held-out texts whose label no"
            " training text has",
        )
    members = (bank_labels, np.arange(len(bank)))
    none = np.full(np.count_nonzero(answerable), -1)
    asked = samples[answerable]
    return asked, (run.rows(asked), run.rows(bank), labels[answerable], members, none)


def metrics(search: Search, ks: Sequence[int]) -> Iterator[tuple[str, int | None, ndarray]]:
    """Yield each metric with its k and the values of the queries; similarities are computed for
    blocks of queries.
    """
    queries, candidates, groups, members, own = search
    relevant = csr_array((np.ones(len(members[0]), bool), members))
    total = len(candidates) - (own >= 0)
    blocks = np.array_split(np.arange(len(queries)), 1 + len(queries) * len(candidates) // BLOCK)
    ranked = []
    for rows in blocks:
        scores = as_array(queries[rows] @ candidates.T)
        (present,) = np.nonzero(own[rows] >= 0)
        scores[present, own[rows][present]] = -np.inf
        ranked.append(_ranked(scores, relevant[groups[rows]].toarray()))
    best, gains = (np.concatenate(parts) for parts in zip(*ranked, strict=True))
    # By chance, k candidates are drawn without replacement.
    found = relevant.sum(1)[groups]
    yield from (
        ("chance", k, np.asarray(hypergeom.sf(0, total, found, np.minimum(k, total)))) for k in ks
    )
    yield from (("R", k, best <= k) for k in ks)
    yield from (("MRR", None, 1 / best), ("nDCG", CUTOFF, gains))


def _ranked(scores: ndarray, relevant: ndarray) -> tuple[ndarray, ndarray]:
    r"""Return each query's rank of its best relevant candidate, and its nDCG among the first k =
    10.

    .. math::

        \sum_{r \le k} \frac{y_r}{\log_2(1 + r)} \Big/ \sum_{r=1}^{\min(k, m)} \frac{1}{\log_2(1 +
        r)}

    where y_r is 1 if the r-th candidate is relevant, else 0, and m candidates are (Järvelin and
    Kekäläinen, 2002).
    """
    # puts irrelevant candidates first among equal ones
    lowered = np.where(relevant, np.nextafter(scores, -np.inf), scores)
    nearest = torch.from_numpy(lowered).topk(min(CUTOFF, lowered.shape[1])).indices.numpy()
    hits = np.take_along_axis(relevant, nearest, axis=1)
    discounts = 1 / np.log2(2 + np.arange(hits.shape[1]))
    ideal = np.cumsum(discounts)[np.minimum(relevant.sum(1), len(discounts)) - 1]
    return ranks(scores, relevant), hits @ discounts / ideal

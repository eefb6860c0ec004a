"""Retrieval of positives, or of training texts with the label of a held-out text."""

import itertools
import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from scipy.sparse import csr_array
from scipy.special import digamma
from scipy.stats import hypergeom
from torch import Tensor

from trueneg.evaluation.per_sample import PerSample
from trueneg.evaluation.retrieval import as_array, ranks
from trueneg.evaluation.texts import EmbeddedTexts, Measured
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.specs.tasks.texts.retrieval import BY_LABEL, CUTOFF, OF_ALL, RECALL_OF_ALL
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)

BLOCK = 2**23  # similarities in memory at once
# Queries (Q, D); candidates (C, D); the group of each query; groups and candidates (two arrays)
# that belong together; and the candidate that is the query itself, which is left out (−1: none).
Search = tuple[Tensor, Tensor, ndarray, tuple[ndarray, ndarray], ndarray]


def measure(runs: Sequence[EmbeddedTexts], settings: Section) -> Iterator[Measured]:
    """Yield R@k with its chance level, the mean reciprocal rank, nDCG and, if wanted, what depends
    on all right answers; equal similarities count against the encoder.
    """
    wanted = settings["retrieval"]
    for run, split in itertools.product(runs, SPLITS):
        for part, asked, search in searches(run, split, wanted["all_answers"]):
            if not len(asked):
                log.warning(f"retrieval, {split} split, {part}: no query has a right answer")
                continue
            for metric, k, values in metrics(search, wanted["ks"], wanted["all_answers"]):
                measured = Measurement("retrieval", metric, part, k=k)
                yield run, split, measured, PerSample(values.mean(), asked, values)


def searches(
    run: EmbeddedTexts, split: str, all_answers: bool
) -> Iterator[tuple[str, ndarray, Search]]:
    """Yield the name of each part of a split, with the samples whose queries are asked, and the
    search.
    """
    has_pairs = run.source.has_positives
    has_labels = bool(run.source.label_names)
    for part, bank, samples in run.parts(split) if has_pairs or has_labels else ():
        if not has_pairs:
            yield part, *of_labels(run, bank, samples)
            continue
        asked, search = of_positives(run, samples)
        yield part, asked, search
        if all_answers and has_labels:
            yield f"{part}{BY_LABEL}", *judged_by_label(run, samples, asked, search)


def of_positives(run: EmbeddedTexts, samples: ndarray) -> tuple[ndarray, Search]:
    """Search distinct positives and texts of the corpus, other than the anchor itself, by distinct
    anchors, which are the groups; return the first sample of each anchor, too.

    All positives of equal anchors are relevant.
    """
    rows = run.source.matching[samples]
    searched = np.concatenate([rows[:, 1:].ravel(), run.source.corpus])
    (asked, anchors, group), (found, first, candidate) = (
        np.unique(run.source.numbers[side], return_index=True, return_inverse=True)
        for side in (rows[:, 0], searched)
    )
    several = rows.shape[1] - 1
    own = pd.Index(found).get_indexer(asked)
    return samples[anchors], (
        run.anchors[rows[anchors, 0]],
        run.positives[searched[first]],
        np.arange(len(asked)),
        (np.repeat(group, several), candidate[: several * len(rows)]),
        own,
    )


def judged_by_label(
    run: EmbeddedTexts, samples: ndarray, asked: ndarray, search: Search
) -> tuple[ndarray, Search]:
    """Return the samples with a label and the search of :func:`of_positives` where every candidate
    with the query's label is relevant, too.
    """
    queries, candidates, groups, (answered, candidate), own = search
    labels = run.labels(samples).repeat(len(candidate) // len(samples))  # as `candidate`
    of_query = run.labels(asked)
    is_asked = of_query >= 0
    pairs = pd.DataFrame({"label": labels, "candidate": candidate})
    by_label = pd.DataFrame({"label": of_query, "query": groups, "own": own}).merge(
        pairs[labels >= 0]
    )
    by_label = by_label[by_label["candidate"] != by_label["own"]]  # the query itself
    members = (
        np.concatenate([answered, by_label["query"]]),
        np.concatenate([candidate, by_label["candidate"]]),
    )
    places = torch.from_numpy(np.flatnonzero(is_asked)).to(queries.device)
    return asked[is_asked], (queries[places], candidates, groups[is_asked], members, own[is_asked])


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


def metrics(
    search: Search, ks: Sequence[int], all_answers: bool = False
) -> Iterator[tuple[str, int | None, ndarray]]:
    """Yield each metric with its k and the values of the queries; similarities are computed for
    blocks of queries.
    """
    queries, candidates, groups, members, own = search
    shape = (1 + max(groups.max(), members[0].max()), len(candidates))
    relevant = csr_array((np.ones(len(members[0]), bool), members), shape=shape)
    total = len(candidates) - (own >= 0)
    blocks = np.array_split(np.arange(len(queries)), 1 + len(queries) * len(candidates) // BLOCK)
    ranked = []
    for rows in blocks:
        scores = as_array(queries[rows] @ candidates.T)
        (present,) = np.nonzero(own[rows] >= 0)
        scores[present, own[rows][present]] = -np.inf
        is_relevant = relevant[groups[rows]].toarray()
        of_all = _of_all(scores, is_relevant, ks) if all_answers else ()
        ranked.append((*_ranked(scores, is_relevant), *of_all))
    best, gains, *others = (np.concatenate(parts) for parts in zip(*ranked, strict=True))
    # By chance, k candidates are drawn without replacement.
    found = relevant.sum(1)[groups]
    yield from (
        ("chance", k, np.asarray(hypergeom.sf(0, total, found, np.minimum(k, total)))) for k in ks
    )
    if all_answers:
        yield "chance", None, _average_precision_by_chance(total, found)
    yield from (("R", k, best <= k) for k in ks)
    yield from (("MRR", None, 1 / best), ("nDCG", CUTOFF, gains))
    if all_answers:
        yield "MRR", CUTOFF, (best <= CUTOFF) / best
        measured = [*((name, None) for name in OF_ALL), *((RECALL_OF_ALL, k) for k in ks)]
        yield from ((*of, values) for of, values in zip(measured, others, strict=True))


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


def _of_all(scores: ndarray, relevant: ndarray, ks: Sequence[int]) -> list[ndarray]:
    r"""Return each query's average precision, its R-precision (the precision among the first m),
    and the share of its relevant candidates among the first k.

    .. math::

        \frac{1}{m} \sum_r y_r \frac{\sum_{q \le r} y_q}{r}

    where y_r is 1 if the r-th candidate is relevant, else 0, and m candidates are (Manning et al.,
    2008, section 8.4).
    """
    order = np.lexsort((relevant, -scores), axis=1)  # equal ones: the irrelevant first
    hits = np.take_along_axis(relevant, order, axis=1)
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    count = relevant.sum(1)
    at_count = np.take_along_axis(precision, count[:, None] - 1, axis=1)[:, 0]
    recalls = [hits[:, :k].sum(1) / count for k in ks]
    return [(precision * hits).sum(1) / count, at_count, *recalls]


def _average_precision_by_chance(total: ndarray, found: ndarray) -> ndarray:
    r"""Return the expected average precision of a random order of C candidates, m of them relevant.

    .. math::

        \frac{1}{C} \Bigl(H_C + \frac{m - 1}{C - 1} (C - H_C)\Bigr),
        \qquad H_C = \sum_{r=1}^{C} \frac{1}{r}

    The r-th candidate is relevant with the probability m / C, and then each of the r − 1 before it
    with (m − 1) / (C − 1).
    """
    harmonic = digamma(total + 1) + np.euler_gamma
    return (harmonic + (found - 1) / np.maximum(total - 1, 1) * (total - harmonic)) / total

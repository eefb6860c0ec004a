"""Pairs of training samples that a frozen tower finds most similar although their labels differ or,
without labels, although they are not given as pairs: wrong labels, duplicates and false negatives.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame, Series

from trueneg.data.draw import read_samples
from trueneg.data.mining import normalised_vectors
from trueneg.data.samples import read_subsets
from trueneg.data.stored_features import read_features
from trueneg.io import privacy
from trueneg.specs.kinds import kind_of
from trueneg.specs.sections import Section

COUNT = 20  # number of pairs to show
BLOCK = 2**24  # number of similarities in memory at once


def write_suspects(
    *,
    study: Section,
    source: str | Path,
    subsets: str | Path,
    vectors: Sequence[str | Path],
    suspects: str | Path,
) -> None:
    """Write the most similar pairs among the training samples of the first seed.

    Args:
        study: settings of the study.
        source: the study's source.
        subsets: subsets of a block of seeds.
        vectors: stored vectors of the study's frozen towers, the first of which is used.
        suspects: parquet file to write, with the columns ``similarity`` and, of both samples,
            ``label`` and what the evaluation package's ``shown`` returns, those of the second with
            the suffix ``2``. If the source is restricted, it is empty and marked as restricted.
    """
    kind = kind_of(study)
    read = read_samples(kind, source)
    pairs = DataFrame()
    if not read.samples.restricted:
        rows, names, content = importlib.import_module(f"trueneg.evaluation.{kind.SAMPLES}").shown(
            read
        )
        train = next(iter(read_subsets(subsets).values())).train
        vectors_of_rows = read_features(vectors[0], read.checksum).values[:, 0, :, 0]
        labels = read.labels[train]
        found = most_similar(vectors_of_rows, rows[train], labels if names else None)
        for column, end in ((0, ""), (-1, "2")):
            of = found[f"sample{end}"]
            shown = DataFrame([content(row) for row in rows[train[of], column]])
            label = [names[label] if names else "" for label in labels[of]]
            pairs = pd.concat([pairs, shown.assign(label=label).add_suffix(end)], axis=1)
        pairs = pairs.assign(similarity=found["similarity"])
    privacy.write_table(pairs, suspects, read.samples.restricted)


def most_similar(
    vectors: ndarray, rows: ndarray, labels: ndarray | None, count: int = COUNT
) -> DataFrame:
    """Return the pairs of samples with the most similar vectors, the most similar first; pairs with
    the same vectors are listed once, as the first such samples.

    Args:
        vectors: (m, D), one per distinct text or image.
        rows: (n, 1) or (n, 2), row of each sample or of its anchor and its positive.
        labels: (n,), pairs with equal ones are left out, and those with one below 0; None: pairs
            that share an anchor or a positive are left out.
        count: maximum number of pairs.

    Returns:
        ``sample`` and ``sample2`` (whose anchor and positive are similar), below n, and
            ``similarity``, their cosine.

    Example:
        >>> vectors = np.array([[1.0, 0.0], [0.0, 2.0], [0.6, 0.8]])
        >>> most_similar(vectors, np.arange(3)[:, None], np.array([0, 0, 1]), 1).round(1)
           sample  sample2  similarity
        0       1        2         0.8
    """
    samples = np.arange(len(rows)) if labels is None else np.flatnonzero(labels >= 0)
    first = rows[samples, 0]
    second = rows[samples, -1]
    # what two samples must not have in common
    own = second if labels is None else labels[samples]
    own2 = first if labels is None else labels[samples]
    anchors = _shared(first, own)
    positives = _shared(second, own2)
    units = normalised_vectors(vectors)
    parts = [DataFrame({"first": first[:0], "second": second[:0], "similarity": units[:0, 0]})]
    step = max(1, BLOCK // max(1, len(positives)))
    for start in range(0, len(anchors), step):
        part = anchors[start : start + step]
        parts.append(_nearest(units, part, positives, labels is not None, count))
    found = pd.concat(parts).sort_values("similarity", ascending=False, kind="stable")
    ends = np.sort(found[["first", "second"]].to_numpy(), axis=1)
    found = found[~DataFrame(ends).duplicated().to_numpy()].head(count)
    chosen = []
    for anchor, positive in found[["first", "second"]].to_numpy():
        excluded = positive if labels is None else positives[positive]
        one = np.flatnonzero((first == anchor) & (own != excluded))[0]
        excluded = anchor if labels is None else own[one]
        other = np.flatnonzero((second == positive) & (own2 != excluded))[0]
        chosen.append((samples[one], samples[other]))
    pairs = DataFrame(chosen, columns=["sample", "sample2"], dtype=np.int64)
    return pairs.assign(similarity=found["similarity"].to_numpy())


def _shared(ends: ndarray, values: ndarray) -> Series:
    """Return the value that all samples with an end have, by end in order of appearance; −1: they
    differ.
    """
    groups = Series(values).groupby(ends, sort=False)
    least = groups.min()
    return least.where(least == groups.max(), -1)


def _nearest(
    units: ndarray, anchors: Series, positives: Series, has_labels: bool, count: int
) -> DataFrame:
    """Return the most similar pairs of an anchor and another sample's positive (``first``,
    ``second`` and ``similarity``); a pair may be there twice, the other way round.

    Args:
        units: (m, D) unit vectors.
        anchors, positives: of :func:`_shared`, by row of the vectors.
        has_labels: whether these have labels in common, not positives and anchors.
        count: number of different pairs to return at least, if there are as many.
    """
    similarity = units[anchors.index] @ units[positives.index].T
    of_anchors = anchors.to_numpy()[:, None]
    of_positives = positives.to_numpy()
    if has_labels:
        known = (of_anchors == of_positives) & (of_anchors >= 0)
    else:
        known = of_anchors == positives.index.to_numpy()
        known |= anchors.index.to_numpy()[:, None] == of_positives
    similarity[known] = -np.inf
    kept = min(10 * count, similarity.size)
    best = np.argpartition(similarity, -kept, None)[-kept:]
    first, second = np.unravel_index(best, similarity.shape)
    found = DataFrame(
        {
            "first": anchors.index[first],
            "second": positives.index[second],
            "similarity": similarity.ravel()[best],
        }
    )
    return found[np.isfinite(found["similarity"])]

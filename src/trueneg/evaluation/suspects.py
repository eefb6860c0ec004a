"""Pairs of training samples that a frozen tower finds most similar although their labels differ or,
without labels, although they are not given as pairs: wrong labels, duplicates and false negatives.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

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
    the same vectors are listed once.

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
    units = normalised_vectors(vectors)
    first = rows[:, 0]
    second = rows[:, -1]
    parts = []
    step = max(1, BLOCK // len(rows))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        similarity = units[first[part]] @ units[second].T
        if labels is None:
            known = (first[part, None] == first) | (second[part, None] == second)
        else:
            known = (labels[part, None] == labels) | (np.minimum(labels[part, None], labels) < 0)
        similarity[known] = -np.inf
        # each pair may be there twice, and several samples may share a text
        kept = min(10 * count, similarity.size)
        best = np.argpartition(similarity, -kept, None)[-kept:]
        sample, sample2 = np.unravel_index(best, similarity.shape)
        parts.append(
            DataFrame(
                {
                    "sample": start + sample,
                    "sample2": sample2,
                    "similarity": similarity.ravel()[best],
                }
            )
        )
    found = pd.concat(parts).sort_values("similarity", ascending=False, kind="stable")
    found = found[np.isfinite(found["similarity"])]
    ends = np.sort(np.stack([first[found["sample"]], second[found["sample2"]]], 1))
    return found[~DataFrame(ends).duplicated().to_numpy()].head(count).reset_index(drop=True)

"""Retrieval examples for inspection: the top results of a finished image–text run for some queries,
and their relevance.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.pairs.pair_source import PairSource
from trueneg.evaluation.evaluate import first_run
from trueneg.evaluation.retrieval import ranks
from trueneg.evaluation.said import OWN, RELATIONS, TRUE, Said, said_of
from trueneg.evaluation.thumbnails import thumbnail
from trueneg.io import privacy
from trueneg.randomness import seed_for

COLUMNS = ["direction", "query", "text", "image", "rank", "score", "relation", "found", "thumbnail"]
TEXT_TO_IMAGE, IMAGE_TO_TEXT = "text to image", "image to text"


def write_examples(*, examples: str | Path, **block: Any) -> None:
    """Write retrieval examples from the test images and their sentences, as ranked by the first run
    of a manifest.

    If the source is restricted, the file contains only column names and is marked as restricted.

    Args:
        examples: output parquet file.
        block: arguments of :func:`trueneg.evaluation.evaluate.first_run`.
    """
    with first_run(**block) as (run, names):
        pairs, test = run.source, run.subset.test
        table = DataFrame(columns=COLUMNS)
        if not pairs.restricted:
            said = said_of(pairs, test)
            table = retrieval_examples(
                run.similarities(said.texts, "test"), said, pairs, test, run.subset.seed
            )
    privacy.write_table(table.assign(**names), examples, pairs.restricted)


def retrieval_examples(
    scores: ndarray,
    said: Said,
    source: PairSource,
    indices: ndarray,
    seed: int,
    queries: int = 8,
    length: int = 5,
) -> DataFrame:
    """Return the top results of some queries in both directions; the queries are the same for every
    network.

    Args:
        scores: (T, n) similarities between sentences and images.
        said: the T sentences of the images' reports.
        source: source of the images.
        indices: (n,) positions of the images in the source.
        seed: seed for drawing the queries.
        queries: maximum number of queries per direction.
        length: maximum number of results per query.

    Returns:
        One row per result: ``direction`` (text to image, image to text), ``query`` (numbered from 0
            in each direction), ``text``, ``image`` (position in the source), ``rank`` (from 1),
            ``score``, ``relation`` (relation of text and image, one of
            :data:`trueneg.evaluation.said.RELATIONS`), ``found`` (best rank among the query's own
            pairs, see :func:`trueneg.evaluation.retrieval.ranks`) and ``thumbnail``
            (:func:`thumbnail`).
    """
    generator = np.random.default_rng(seed_for(seed, "shown queries"))
    relation = said.relation
    directions = {
        TEXT_TO_IMAGE: (_query_texts(relation, generator)[:queries], scores, relation),
        IMAGE_TO_TEXT: (generator.permutation(len(indices))[:queries], scores.T, relation.T),
    }
    rows = []
    for direction, (chosen, grid, related) in directions.items():
        own_ranks = ranks(grid[chosen], related[chosen] == RELATIONS.index(OWN))
        for number, (query, own_rank) in enumerate(zip(chosen, own_ranks, strict=True)):
            # Ties keep the order of the source.
            for place, candidate in enumerate(np.argsort(-grid[query], kind="stable")[:length]):
                text, image = (
                    (query, candidate) if direction == TEXT_TO_IMAGE else (candidate, query)
                )
                shown = thumbnail(np.asarray(source.images[indices[image]]))
                result = (
                    said.texts[text],
                    int(indices[image]),
                    place + 1,
                    float(grid[query, candidate]),
                )
                rows.append(
                    (
                        direction,
                        number,
                        *result,
                        RELATIONS[related[query, candidate]],
                        int(own_rank),
                        shown,
                    )
                )
    return DataFrame(rows, columns=COLUMNS)


def _query_texts(relation: ndarray, generator: np.random.Generator) -> ndarray:
    """Return sentence indices in random order, but with sentences that are true of other reports'
    images first.

    Such sentences reveal whether an objective pushed false negatives away.
    """
    order = generator.permutation(len(relation))
    elsewhere = (relation[order] == RELATIONS.index(TRUE)).any(1)
    return order[np.argsort(~elsewhere, kind="stable")]

"""Prec@k on CheXpert 8×200: from an image to images with the same label, and from a sentence to
images.

Prec@k is the share of images with the query's label among the first k candidates, averaged over 80
image or 40 text queries (ConVIRT; ReCo, section 4.1, Table 1). Chance level is 1/8. Images are
compared by the cosine of their embeddings in the space shared with texts; texts and images by the
model's aggregation. As in the published protocol, other images of a query's patient remain
candidates.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy import ndarray
from torch.nn import functional

from trueneg.data.pairs.chexpert_8x200 import Benchmark
from trueneg.errors import UserError
from trueneg.evaluation.pair_features import embed_images, similarities
from trueneg.evaluation.pairs import EmbeddedPairs, Measured
from trueneg.evaluation.pairs.precision import both_queries, label_precisions
from trueneg.evaluation.retrieval import as_array
from trueneg.specs.sections import Section
from trueneg.stats.measurement import Measurement

# Similarities (Q, C) between Q queries and C candidate images, the label of each query, and the
# label of each candidate.
Queries = tuple[ndarray, ndarray, ndarray]


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield precisions by direction, list length and label, and ReCo's average."""
    for run in runs:
        if run.benchmark is not None:
            ks = settings["chexpert_8x200"]["ks"]
            names = run.benchmark.label_names
            by_image, by_text = (
                label_precisions(*queries, ks, names)
                for queries in scored_queries(run, run.benchmark)
            )
            yield from both_queries(
                run, "test", Measurement("chexpert 8x200", "Prec"), by_image, by_text
            )


def scored_queries(run: EmbeddedPairs, benchmark: Benchmark) -> tuple[Queries, Queries]:
    """Return the image queries and the text queries, with their similarities to the candidates,
    computed by a run's networks.
    """
    networks = run.networks
    expected = run.source.images.shape[1]
    channels = benchmark.images.shape[1]
    if channels != expected:
        raise UserError(
            f"evaluation.chexpert_8x200: images of CheXpert 8×200 have {channels} channels, but"
            f" the networks were trained on images with {expected}; remove this section."
        )
    regions = networks.model.region_similarity.needs_regions
    is_query = benchmark.is_query
    candidates, queries = (
        embed_images(networks, benchmark, np.flatnonzero(chosen), run.device, regions=regions)
        for chosen in (~is_query, is_query)
    )
    units, wanted = (
        functional.normalize(images.embeddings.pooled.float(), dim=1)
        for images in (candidates, queries)
    )
    labels = benchmark.labels[~is_query]
    table = benchmark.texts
    asked = table["label"].map(benchmark.label_names.index).to_numpy(np.int64)
    scores = similarities(networks, table["sentence"].tolist(), candidates, run.device)
    return (as_array(wanted @ units.T), benchmark.labels[is_query], labels), (scores, asked, labels)

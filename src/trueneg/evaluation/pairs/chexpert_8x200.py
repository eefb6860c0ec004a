"""Prec@k on CheXpert 8×200: from an image to images with the same label, and from a sentence to images.

Prec@k is the share of images with the query's label among the first k candidates, averaged over 80 image or 40 text queries
(ConVIRT; ReCo, section 4.1, Table 1). Chance level is 1/8. Images are compared by the cosine of their embeddings in the space
shared with texts; texts and images by the model's aggregation. As in the published protocol, other images of a query's patient
remain candidates.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch.nn import functional

from trueneg.data.pairs.chexpert_8x200 import Benchmark
from trueneg.errors import UserError
from trueneg.evaluation.pair_features import embed_images, similarities
from trueneg.evaluation.pairs import EmbeddedRun, Measured
from trueneg.evaluation.pairs.precision import Precisions, both_queries, label_precisions
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EmbeddedRun], settings: Mapping[str, Any]) -> Iterator[Measured]:
    """Yield precisions by direction, list length and label, and ReCo's average."""
    for run in runs:
        if run.benchmark is not None:
            found = _precisions(run, run.benchmark, settings["chexpert_8x200"]["ks"])
            yield from both_queries(run, "test", Measurement("chexpert 8x200", "Prec"), *found)


def _precisions(run: EmbeddedRun, benchmark: Benchmark, ks: Sequence[int]) -> tuple[Precisions, Precisions]:
    """Return the precisions of image queries and of text queries."""
    networks, channels, found = run.networks, run.source.images.shape[1], benchmark.images.shape[1]
    if channels != found:
        raise UserError(
            f"evaluation.chexpert_8x200: images of CheXpert 8×200 have {found} channels, but the networks were trained on images "
            f"with {channels}; remove this section."
        )
    regions, is_query = networks.model.region_similarity.needs_regions, benchmark.is_query
    candidates, queries = (
        embed_images(networks, benchmark, np.flatnonzero(chosen), run.device, regions=regions) for chosen in (~is_query, is_query)
    )
    units, wanted = (functional.normalize(images.embeddings.pooled.float(), dim=1) for images in (candidates, queries))
    labels, names, table = benchmark.labels[~is_query], benchmark.label_names, benchmark.texts
    scores = similarities(networks, table["sentence"].tolist(), candidates, run.device)
    by_image = label_precisions(wanted @ units.T, benchmark.labels[is_query], labels, ks, names)
    return by_image, label_precisions(scores, table["label"].map(names.index).to_numpy(np.int64), labels, ks, names)

"""Prec@k on CheXpert 8×200: from an image to images of the same label, and from a sentence to images."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from trueneg.data.pairs.chexpert_8x200 import Benchmark
from trueneg.errors import UserError
from trueneg.evaluation.pair_features import embed_images, similarities
from trueneg.evaluation.precision_at_k import Gallery, label_precisions, with_average
from trueneg.training.image_text_networks import Networks

TASK = "chexpert 8x200"


def chexpert_8x200_rows(
    networks: Networks, benchmark: Benchmark, *, device: torch.device, ks: Sequence[int] = (5, 10, 50)
) -> list[dict[str, Any]]:
    """Prec@k of ConVIRT and ReCo (section 4.1, Table 1) of one run.

    The share of images with the query's label among the first k candidates, a mean over 80 image or 40 text queries; knowing
    nothing gives one in eight. Images are compared by the cosine of their embeddings in the space that they share with texts,
    texts with images as the model's aggregation has it. As in the published protocol, other images of a query's patient stay
    candidates.

    Args:
        networks: of the finished run.
        benchmark: of :func:`trueneg.data.pairs.chexpert_8x200.read_benchmark`.
        device: where to compute.
        ks: list lengths.

    Returns:
        Rows: split (``test``), task, metric (``Prec``), direction (``image to image``, ``text to image``; of ReCo's average none,
        nor a k), k, group (the label), value.

    Raises:
        UserError: if the networks take colours.
    """
    channels = networks.augmentation.mean.numel()
    if channels != benchmark.images.shape[1]:
        found = benchmark.images.shape[1]
        raise UserError(f"the networks take images of {channels} channels, but CheXpert 8×200 has {found}; leave it out.")
    networks.model.to(device).eval()
    networks.augmentation.to(device)
    regions, places = networks.model.region_similarity.needs_regions, np.arange(len(benchmark.images))
    candidates, queries = (
        embed_images(networks, benchmark, places[chosen], device, regions=regions)
        for chosen in (~benchmark.is_query, benchmark.is_query)
    )
    gallery = Gallery(*(values[~benchmark.is_query] for values in (places, benchmark.labels, benchmark.patients)))
    found, wanted = (functional.normalize(images.embeddings.pooled.float(), dim=1) for images in (candidates, queries))
    names = benchmark.label_names
    texts = benchmark.texts["sentence"].tolist(), benchmark.texts["label"].map(names.index).to_numpy(np.int64)
    scores = similarities(networks, texts[0], candidates, device)
    measured = with_average(
        {
            "image to image": label_precisions(wanted @ found.T, benchmark.labels[benchmark.is_query], gallery, ks, names),
            "text to image": label_precisions(scores, texts[1], gallery, ks, names),
        }
    )
    return [
        {
            "split": "test",
            "task": TASK,
            "metric": "Prec",
            "direction": direction,
            "k": k,
            "group": None if label == "mean" else label,
            "value": float(value),
        }
        for direction, by_length in measured.items()
        for k, by_label in by_length.items()
        for label, value in by_label.items()
    ]

"""Prec@k by label, from an image to other images and from a sentence to images, as on CheXpert
8×200.
"""

import itertools
import logging
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy import ndarray
from pandas import Series
from torch.nn import functional

from trueneg.evaluation.pairs import EmbeddedPairs, Measured, of_classes
from trueneg.evaluation.pairs.zero_shot import prompts_of
from trueneg.evaluation.retrieval import as_array, precisions_at_k
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)

Precisions = dict[int, dict[str, float]]  # k → label → precision


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield precisions for images with a single label; the text queries are the positive prompts.

    Images are compared by the cosine of their embeddings in the space shared with texts; ConVIRT
    and ReCo do not say whether they compare before or after the projection. Every image of
    :func:`single_label_gallery` is a query and a candidate for the images of other patients.
    """
    for run, split in itertools.product(runs, SPLITS):
        names = run.source.label_names
        ks = settings["precision"]["ks"]
        prompts = prompts_of(run, settings)
        asked = np.array([label for label, name in enumerate(names) if name in prompts])
        if len(asked):
            texts = run.similarities([prompts[names[label]]["positive"] for label in asked], split)
            all_images = run.images(split).embeddings.pooled
            patients = run.source.patients[run.images(split).indices]
            images, labels = single_label_gallery(run.labels(split), patients)
            units = functional.normalize(
                all_images[torch.as_tensor(images, device=all_images.device)].float(), dim=1
            )
            by_image = label_precisions(
                units @ units.T,
                labels,
                labels,
                ks,
                names,
                excluded=patients[images][:, None] == patients[images],
            )
            retrievable = np.isin(asked, labels)
            by_text = label_precisions(
                texts[retrievable][:, images], asked[retrievable], labels, ks, names
            )
            yield from both_queries(run, split, Measurement("precision", "Prec"), by_image, by_text)


def both_queries(
    run: EmbeddedPairs, split: str, key: Measurement, by_image: Precisions, by_text: Precisions
) -> Iterator[Measured]:
    """Yield the precisions of image queries and of text queries, by list length and label, and
    ReCo's average (Table 1).

    The average is over list lengths and both kinds of queries; it exists if both were measured at
    the same list lengths.
    """
    for direction, by_length in (("image to image", by_image), ("text to image", by_text)):
        for k, by_label in by_length.items():
            yield from of_classes(run, split, key._replace(direction=direction, k=k), by_label)
    if by_image and by_image.keys() == by_text.keys():
        yield (
            run,
            split,
            key,
            float(
                np.mean([by_label["mean"] for by_label in (*by_image.values(), *by_text.values())])
            ),
        )


def single_label_gallery(labels: ndarray, patients: ndarray) -> tuple[ndarray, ndarray]:
    """Select images with exactly one positive and no unknown label, as in ConVIRT's CheXpert 8×200,
    and return their labels.

    CheXpert 8×200 has 200 images for each of eight labels, whereas a split is not balanced. A label
    with fewer than two patients is left out together with its images, because no other patient's
    image could be retrieved, and precisions are averaged over labels (:func:`label_precisions`).

    Args:
        labels: (n, K) with values 1, 0 or NaN (unknown), K ≥ 1.
        patients: (n,) patient of each image.

    Returns:
        Two int64 arrays (C,): sorted indices of the selected images, and their labels.

    Example:
        >>> labels = np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [np.nan, 1]])
        >>> images, only_label = single_label_gallery(
        ...     labels, np.array(["a", "b", "c", "d", "d", "e"])
        ... )
        >>> images.tolist(), only_label.tolist()  # the second label's images are all patient d's
        ([0, 1], [0, 0])
    """
    images = np.flatnonzero(labels.sum(1) == 1)  # NaN is not 1
    only_label = labels[images].argmax(1)
    kept = Series(patients[images]).groupby(only_label).transform("nunique").to_numpy() >= 2
    return images[kept], only_label[kept]


def label_precisions(
    scores,
    wanted: ndarray,
    labels: ndarray,
    ks: Sequence[int],
    names: Sequence[str],
    excluded: ndarray | None = None,
) -> Precisions:
    """Compute the share of the first k images with the query's label, averaged over each label's
    queries and then over labels.

    With the same number of queries for each label, this is Prec@k of ConVIRT and ReCo (section
    4.1), the mean over queries; otherwise, it prevents a frequent label from outweighing a rare
    one. Uninformative scores give 1/K on average for K labels, apart from the effect of excluded
    images. A label with fewer than k images cannot reach 1. Ties count against the method.

    Args:
        scores: (Q, C), queries × images, higher is nearer; array or tensor.
        wanted: (Q,) integers, the label of each query.
        labels: (C,) integers, the label of each image.
        ks: list lengths; those longer than the number of images that a query may retrieve are left
            out and logged.
        names: names of the labels.
        excluded: (Q, C) bool mask of images that a query may not retrieve, such as those of its own
            patient.

    Returns:
        k → label → precision; the label ``"mean"`` is the mean over labels.

    Example:
        >>> scores = np.array([[0.9, 0.8, 0.1, 0.2], [0.7, 0.1, 0.8, 0.2]])
        >>> label_precisions(
        ...     scores, np.array([0, 1]), np.array([0, 0, 1, 1]), (1, 2), ["edema", "effusion"]
        ... )[2]
        {'edema': 1.0, 'effusion': 0.5, 'mean': 0.75}
    """
    scores = as_array(scores).astype(np.float64)
    longest = scores.shape[1]
    if excluded is not None:
        scores[excluded] = -np.inf  # sorted last, beyond the largest k
        longest -= int(excluded.sum(1).max(initial=0))
    possible = [k for k in ks if k <= longest]
    if len(possible) < len(ks):
        log.warning(
            f"skipped Prec@k for k = {sorted(set(ks) - set(possible))}: a query has only {longest}"
            " candidates",
        )
    if not possible or not len(wanted):
        return {}
    precisions: Precisions = {}
    for k, values in zip(
        possible, precisions_at_k(scores, wanted, labels, possible).T, strict=True
    ):
        by_label = {
            names[label]: float(values[wanted == label].mean()) for label in np.unique(wanted)
        }
        precisions[k] = {**by_label, "mean": float(np.mean(list(by_label.values())))}
    return precisions

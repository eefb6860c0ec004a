"""Prec@k by label: from an image to other images, and from a sentence to images, as on CheXpert 8×200."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trueneg.evaluation.pairs import EmbeddedRun, Measured, each_split, of_classes
from trueneg.evaluation.pairs.zero_shot import prompts_of
from trueneg.evaluation.retrieval import as_array, precisions_at_k
from trueneg.evaluation.roc import known_labels
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)


Precisions = dict[str | None, dict[int | None, dict[str, float]]]  # direction → k → label → precision


def measure(runs: Sequence[EmbeddedRun], settings: Mapping[str, Any]) -> Iterator[Measured]:
    """Precisions among images of one label; the texts are the positive prompts."""
    for run, split in each_split(runs):
        names, images = run.source.label_names, run.images(split)
        prompts = prompts_of(run.source, settings)
        labels = [label for label, name in enumerate(names) if name in prompts]
        if labels:
            texts = run.similarities([prompts[names[label]].positive for label in labels], split)
            given = run.labels(split), run.source.patients[images.indices], settings["precision"]["ks"], names
            found = retrieval_precisions(images.embeddings.pooled, texts, labels, *given)
            yield from of_lengths(run, split, Measurement("precision", "Prec"), found)


def of_lengths(run: EmbeddedRun, split: str, measured: Measurement, found: Precisions) -> Iterator[Measured]:
    """Precisions by direction, length of the list and label."""
    for direction, by_length in found.items():
        for k, by_label in by_length.items():
            yield from of_classes(run, split, measured._replace(direction=direction, k=k), by_label)


class Gallery(NamedTuple):
    """Images to be found, each of exactly one label.

    Attributes:
        images: (C,) int64, sorted places among the images that were given.
        labels: (C,) int64, the label of each.
        patients: (C,) whose image it is.
    """

    images: np.ndarray
    labels: np.ndarray
    patients: np.ndarray


def single_label_gallery(labels, patients) -> Gallery:
    """The images with exactly one positive label and no unknown one, as in ConVIRT's CheXpert 8×200.

    That set has 200 images of each of eight labels; a split has what it has. So a label that fewer than two patients have
    is left out with its images, as nobody else's image of it could be found, and precisions are averaged over labels first
    (:func:`label_precisions`).

    Args:
        labels: (n, K) of 1, 0, −1 (uncertain) and NaN (missing).
        patients: (n,).

    Example:
        >>> labels = np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [np.nan, 1]])
        >>> gallery = single_label_gallery(labels, ["a", "b", "c", "d", "d", "e"])
        >>> gallery.images.tolist(), gallery.labels.tolist()          # of the second label, all images are patient d's
        ([0, 1], [0, 0])
    """
    labels, patients = known_labels(labels), as_array(patients)
    one = np.flatnonzero((labels.sum(1) == 1) if labels.shape[1] else np.zeros(len(labels), bool))  # NaN is no 1
    own = labels[one].argmax(1) if len(one) else np.zeros(0, np.int64)
    owners = [len(np.unique(patients[one][own == label])) for label in range(labels.shape[1])]
    kept = np.array([owners[label] >= 2 for label in own], dtype=bool)
    return Gallery(one[kept], own[kept], patients[one[kept]])


def label_precisions(
    scores, query_labels, gallery: Gallery, ks: Sequence[int], names: Sequence[str], *, query_patients=None
) -> dict[int, dict[str, float]]:
    """The share of images with the query's label among the first k: a mean over the queries of each label, then over labels.

    With equally many queries of each label this is Prec@k of ConVIRT and ReCo (section 4.1), the mean over queries; with
    others, a frequent label does not outweigh a rare one. Scores that say nothing give one over the number of labels, up to
    the query's own patient, who is left out. A label with fewer than k images cannot reach 1. Ties count against the method.

    Args:
        scores: (Q, C), queries × the gallery's images, higher is nearer; array or tensor.
        query_labels: (Q,) integers.
        gallery: what is searched.
        ks: list lengths; one that is longer than what a query may find is left out, and the log says so.
        names: of the labels.
        query_patients: (Q,) for image queries: a patient's own images are no candidates (8×200 leaves some in). None: texts.

    Returns:
        k → label → precision; the label ``"mean"`` is the mean over labels.

    Example:
        >>> gallery = Gallery(np.arange(4), np.array([0, 0, 1, 1]), np.array(["a", "b", "c", "d"]))
        >>> scores = np.array([[0.9, 0.8, 0.1, 0.2], [0.7, 0.1, 0.8, 0.2]])
        >>> label_precisions(scores, [0, 1], gallery, ks=(1, 2), names=["edema", "effusion"])[2]
        {'edema': 1.0, 'effusion': 0.5, 'mean': 0.75}
    """
    scores, query_labels = as_array(scores).astype(np.float64), as_array(query_labels)
    longest = scores.shape[1]
    if query_patients is not None:
        own = as_array(query_patients)[:, None] == gallery.patients
        scores[own] = -np.inf  # last of all, and no k reaches so far
        longest -= int(own.sum(1).max(initial=0))
    possible = [k for k in ks if k <= longest]
    if len(possible) < len(ks):
        log.warning("Prec@k not measured for k = %s: %d images can be found", sorted(set(ks) - set(possible)), longest)
    if not possible or not len(query_labels):
        return {}
    precisions = precisions_at_k(scores, query_labels, gallery.labels, possible)
    found = {}
    for k, values in zip(possible, precisions.T, strict=True):
        by_label = {names[label]: float(values[query_labels == label].mean()) for label in np.unique(query_labels)}
        found[k] = {**by_label, "mean": float(np.mean(list(by_label.values())))}
    return found


def retrieval_precisions(
    embeddings: Tensor, text_scores, text_labels: Sequence[int], labels, patients, ks: Sequence[int], names: Sequence[str]
) -> Precisions:
    """Prec@k from image to image and from text to image, and ReCo's average of both (Table 1).

    Images are compared by the cosine of their embeddings in the space that they share with texts; the papers do not say
    whether before or after the projection. Every image of :func:`single_label_gallery` is a query, and a candidate for others.

    Args:
        embeddings: (n, D) of all images, not normalised.
        text_scores: (T, n) s(text, image) of the query texts.
        text_labels: T labels, as numbers. A text whose label no image of the gallery has is left out.
        labels: (n, K), as for :func:`single_label_gallery`.
        patients: (n,).
        ks: list lengths, as for :func:`label_precisions`.
        names: of the K labels.

    Returns:
        ``"image to image"``, ``"text to image"`` → k → label → precision; and None → None → ``"mean"``: the mean over list
        lengths and the two, if both could be measured at the same ones.

    """
    gallery, text_labels = single_label_gallery(labels, patients), np.asarray(text_labels, np.int64)
    units = functional.normalize(embeddings[torch.as_tensor(gallery.images, device=embeddings.device)].float(), dim=1)
    known = np.isin(text_labels, gallery.labels)
    found = {
        "image to image": label_precisions(units @ units.T, gallery.labels, gallery, ks, names, query_patients=gallery.patients),
        "text to image": label_precisions(
            as_array(text_scores)[known][:, gallery.images], text_labels[known], gallery, ks, names
        ),
    }
    return with_average(found)


def with_average(found: dict[str, dict[int, dict[str, float]]]) -> Precisions:
    """Precisions of several kinds of query, and ReCo's average (Table 1): over list lengths and kinds, if these fit.

    Args:
        found: direction → k → label → precision, with the label ``"mean"``.

    Returns:
        The same with None → None → ``"mean"``, if every kind could be measured at the same list lengths.

    Example:
        >>> found = {"image to image": {5: {"mean": 0.5}}, "text to image": {5: {"mean": 1.0}}}
        >>> with_average(found)[None]
        {None: {'mean': 0.75}}
    """
    lengths = [metrics.keys() for metrics in found.values()]
    if not lengths[0] or any(other != lengths[0] for other in lengths):
        return found
    means = [by_label["mean"] for metrics in found.values() for by_label in metrics.values()]
    return {**found, None: {None: {"mean": float(np.mean(means))}}}

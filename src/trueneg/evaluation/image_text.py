"""The image–text protocol: every measurement of a finished run, as tidy rows, from images and texts embedded once."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.pairs.pair_splits import PairSubset, refuse_leakage
from trueneg.errors import UserError
from trueneg.evaluation.boxed_phrases import boxed_phrases, phrase_grounding
from trueneg.evaluation.fine_tuning import fine_tuned_scores
from trueneg.evaluation.grounding import ResizeAndCrop
from trueneg.evaluation.multilabel_probe import linear_evaluation
from trueneg.evaluation.pair_features import EmbeddedImages, embed_images, embed_texts, similarities
from trueneg.evaluation.precision_at_k import retrieval_precisions
from trueneg.evaluation.region_retrieval import phrase_region_scores, region_retrieval
from trueneg.evaluation.retrieval import Metric, chance_recall_both_ways, retrieval_both_ways
from trueneg.evaluation.zero_shot import PROMPTS, PromptPair, areas_by_class, zero_shot_metrics
from trueneg.stats.measurement import Measurement
from trueneg.training.image_text_networks import Networks

log = logging.getLogger(__name__)

SPLITS = ("validation", "test")
# Classifiers that are trained on augmented images: task, section of the settings, whether the encoder is frozen.
CLASSIFIERS = (("fine-tuning", "fine_tuning", False), ("augmented linear probe", "augmented_linear_probe", True))


def image_text_rows(
    networks: Networks,
    source: PairSource,
    subset: PairSubset,
    settings: Mapping[str, Any],
    *,
    device: torch.device,
    boxes: pd.DataFrame | None = None,
) -> list[dict[str, Any]]:
    """Zero-shot classification, retrieval, grounding, linear evaluation and fine-tuning of one run, on both held-out splits.

    Args:
        networks: of the finished run (:func:`trueneg.training.image_text_networks.read_networks`).
        source: images and sentences.
        subset: the run's; no patient may be in two of its splits.
        settings: ``zero_shot`` (``prompts``: label → negative and positive; None: those of the paper), ``retrieval``
            (``ks``), ``grounding`` (``smoothing``), ``linear_probe`` (``fractions``, ``epochs``, ``batch_size``,
            ``learning_rate``, ``weight_decay``); and, each only measured if it is there and not None, ``region_retrieval``
            (``ks``), ``precision`` (``ks``), ``fine_tuning`` and ``augmented_linear_probe`` (keys as of ``linear_probe``).
        device: where to compute.
        boxes: for grounding and region retrieval: ``report``, ``class``, ``finding``, and ``x0``, ``y0``, ``x1``, ``y1`` in
            pixels of the source's images.

    Returns:
        Rows: split, the key columns that apply (:class:`~trueneg.stats.measurement.Measurement`), value; of the metric
        ``chance``: what a recall would be without learning. Without a group it is the mean of the classes.

    Raises:
        UserError: if the subset leaks, or a label has no prompts.
    """
    refuse_leakage(source, subset)
    networks.model.to(device).eval()
    networks.augmentation.to(device)
    regions = boxes is not None or networks.model.region_similarity.needs_regions
    training = embed_images(networks, source, subset.train, device, regions=False)
    rows = []
    for split in SPLITS:
        images = embed_images(networks, source, getattr(subset, split), device, regions=regions)
        measured = [
            *_zero_shot(networks, source, images, settings["zero_shot"], device),
            *_retrieval(networks, source, images, settings["retrieval"], device),
            *_linear(source, training, images, settings["linear_probe"], subset.seed),
        ]
        if boxes is not None:
            measured += _boxes(networks, source, images, boxes, settings, device)
        if settings.get("precision") is not None:
            measured += _precision(networks, source, images, settings, device)
        rows += [{"split": split, **row} for row in measured]
    for task, section, frozen in CLASSIFIERS:
        if settings.get(section) is not None:
            rows += _fine_tuning(networks, source, subset, task, settings[section], frozen, device)
    return rows


def _prompts(source: PairSource, given: Mapping[str, Any] | None) -> Mapping[str, PromptPair]:
    prompts = PROMPTS if given is None else {name: PromptPair(**pair) for name, pair in given.items()}
    unknown = sorted(set(prompts) - set(source.label_names))
    if unknown and given is not None:
        raise UserError(
            f"evaluation.zero_shot.prompts names {', '.join(unknown)}, expected labels of {source.name}: "
            f"{', '.join(source.label_names)}."
        )
    return prompts


def _zero_shot(
    networks: Networks, source: PairSource, images: EmbeddedImages, settings: Mapping[str, Any], device: torch.device
) -> Iterator[dict[str, Any]]:
    prompts = _prompts(source, settings["prompts"])
    labels = source.labels[images.indices]
    names = [name for name in _measurable(labels, source.label_names) if name in prompts]
    if not names:
        return
    scores = similarities(networks, [text for name in names for text in prompts[name]], images, device)
    columns = [source.label_names.index(name) for name in names]
    for metric, by_class in zero_shot_metrics(scores[::2].T, scores[1::2].T, labels[:, columns], names).items():
        yield from _by_class(Measurement("zero-shot", metric), by_class)


def _retrieval(
    networks: Networks, source: PairSource, images: EmbeddedImages, settings: Mapping[str, Any], device: torch.device
) -> Iterator[dict[str, Any]]:
    """Between images and different sentences, and between images and different reports (mean score of their sentences)."""
    reports = source.reports[images.indices]
    table = source.sentences[source.sentences["report"].isin(reports)].sort_values(["report", "index"], kind="stable")
    numbers, texts = pd.factorize(table["sentence"], sort=True)
    scores = similarities(networks, texts.tolist(), images, device)
    said = {report: frozenset(own) for report, own in pd.Series(numbers).groupby(table["report"].to_numpy())}
    relevant = np.zeros(scores.shape, dtype=bool)
    for image, report in enumerate(reports):
        relevant[list(said[report]), image] = True
    yield from _retrieval_rows("retrieval sentence", "report", scores, relevant, settings["ks"])
    classes = table["class"].to_numpy()[np.unique(numbers, return_index=True)[1]]
    if source.shown.shape[1]:
        true = np.where(classes[:, None] >= 0, source.shown[images.indices][:, classes].T, False)
        # What says nothing of any image here is no query, nor an image of which nothing is said.
        chosen = np.ix_(true.any(1), true.any(0))
        yield from _retrieval_rows("retrieval sentence", "truth", scores[chosen], true[chosen], settings["ks"])
    different = list(dict.fromkeys(said[report] for report in reports))
    of_reports = np.stack([scores[list(own)].mean(0) for own in different])
    equal = np.array([[own == said[report] for report in reports] for own in different])
    yield from _retrieval_rows("retrieval report", "report", of_reports, equal, settings["ks"])


def _retrieval_rows(
    task: str, labels: str, scores: np.ndarray, relevant: np.ndarray, ks: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """The measurements, and as the metric ``chance`` what each recall would be without learning."""
    if scores.size:
        yield from _both_ways(task, labels, retrieval_both_ways(scores, ks, relevant))
        by_chance = chance_recall_both_ways(relevant, ks)
        yield from _both_ways(task, labels, {one._replace(metric="chance"): value for one, value in by_chance.items()})


def _both_ways(task: str, labels: str, values: Mapping[Metric, float]) -> Iterator[dict[str, Any]]:
    for one, value in values.items():
        yield _row(Measurement(task, one.metric, labels, direction=one.direction, k=one.k), value)


def _boxes(
    networks: Networks,
    source: PairSource,
    images: EmbeddedImages,
    boxes: pd.DataFrame,
    settings: Mapping[str, Any],
    device: torch.device,
) -> Iterator[dict[str, Any]]:
    """Grounding and region retrieval, for the sentences that have boxes in the crop; a row counts them."""
    size = networks.augmentation.cropped(source.size)
    phrases = boxed_phrases(source, images.indices, boxes, ResizeAndCrop.centred(source.size, source.size, size))
    if phrases.empty:
        return
    embedded = embed_texts(networks, phrases["sentence"].unique().tolist(), device)
    grounded = phrase_grounding(networks.model, images, embedded, phrases, size, **settings["grounding"])
    for metric, by_finding in grounded.items():
        yield from _by_class(Measurement("grounding", metric), by_finding)
    if settings.get("region_retrieval") is not None:
        scores = phrase_region_scores(embedded, images.embeddings.regions, phrases, size)
        for labels, values in region_retrieval(scores, phrases, settings["region_retrieval"]["ks"]).items():
            yield from _both_ways("region retrieval", labels, values)


def _precision(
    networks: Networks, source: PairSource, images: EmbeddedImages, settings: Mapping[str, Any], device: torch.device
) -> Iterator[dict[str, Any]]:
    """Among images of one label; the texts are the positive prompts."""
    names, chosen = source.label_names, images.indices
    prompts = _prompts(source, settings["zero_shot"]["prompts"])
    labels = [label for label, name in enumerate(names) if name in prompts]
    if not labels:
        return
    texts = similarities(networks, [prompts[names[label]].positive for label in labels], images, device)
    given = source.labels[chosen], source.patients[chosen], settings["precision"]["ks"], names
    measured = retrieval_precisions(images.embeddings.pooled, texts, labels, *given)
    for direction, by_length in measured.items():
        for k, by_label in by_length.items():
            yield from _by_class(Measurement("precision", "Prec", direction=direction, k=k), by_label)


def _linear(
    source: PairSource, training: EmbeddedImages, images: EmbeddedImages, settings: Mapping[str, Any], seed: int
) -> Iterator[dict[str, Any]]:
    """Multi-label linear evaluation on the frozen encoder's features; classes that a split lacks are left out."""
    known, wanted = source.labels[training.indices], source.labels[images.indices]
    names = [name for name in _measurable(known, source.label_names) if name in _measurable(wanted, source.label_names)]
    if not names:
        return
    columns = [source.label_names.index(name) for name in names]
    sets = training.features, known[:, columns], images.features, wanted[:, columns]
    areas = linear_evaluation(*sets, names, seed=seed, **settings)
    for fraction, by_class in areas.items():
        yield from _by_class(Measurement("linear probe", "AUC", fraction=fraction), by_class)


def _fine_tuning(
    networks: Networks,
    source: PairSource,
    subset: PairSubset,
    task: str,
    settings: Mapping[str, Any],
    frozen: bool,
    device: torch.device,
) -> Iterator[dict[str, Any]]:
    """Classifiers trained once for both splits; classes that the training or a split lacks are left out there."""
    known = source.labels[subset.train]
    trained = _measurable(known, source.label_names)
    if not trained:
        return
    columns = [source.label_names.index(name) for name in trained]
    parts = [getattr(subset, split) for split in SPLITS]
    options = {**settings, "frozen": frozen, "seed": subset.seed, "device": device}
    scores = fine_tuned_scores(networks, source, subset.train, known[:, columns], parts, **options)
    for place, (split, part) in enumerate(zip(SPLITS, parts, strict=True)):
        labels = source.labels[part][:, columns]
        names = _measurable(labels, trained)
        chosen = [trained.index(name) for name in names]
        for fraction, by_part in scores.items():
            areas = areas_by_class(by_part[place][:, chosen], labels[:, chosen], names)
            if names:
                areas["mean"] = float(np.mean(list(areas.values())))
            yield from ({"split": split, **row} for row in _by_class(Measurement(task, "AUC", fraction=fraction), areas))


def _measurable(labels: np.ndarray, names: Sequence[str]) -> list[str]:
    """The labels with at least one positive and one negative image; the log names the others."""
    both = (labels == 1).any(0) & (labels == 0).any(0)
    if not both.all():
        lacking = ", ".join(name for name, measurable in zip(names, both, strict=True) if not measurable)
        log.warning("not measured, for want of positive or negative images among %d: %s", len(labels), lacking)
    return [name for name, measurable in zip(names, both, strict=True) if measurable]


def _by_class(measured: Measurement, values: Mapping[Any, float]) -> Iterator[dict[str, Any]]:
    for name, value in values.items():
        yield _row(measured if name == "mean" else measured._replace(group=name), value)


def _row(measured: Measurement, value: float) -> dict[str, Any]:
    return {**measured._asdict(), "value": float(value)}

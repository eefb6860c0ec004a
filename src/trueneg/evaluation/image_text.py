"""The image–text protocol: every measurement of a finished run, as tidy rows, from images and texts embedded once."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from trueneg.datasets.pair_splits import PairSubset, read_pair_subsets, refuse_leakage
from trueneg.datasets.pairs import PairSource, read_pairs
from trueneg.errors import UserError
from trueneg.evaluation.grounding import (
    ResizeAndCrop,
    box_masks,
    contrast_to_noise_ratio,
    intersection_over_union,
    mean_by_category,
    upsample,
)
from trueneg.evaluation.multilabel_probe import linear_evaluation
from trueneg.evaluation.pair_features import EmbeddedImages, embed_images, embed_texts, similarities
from trueneg.evaluation.retrieval import retrieval_both_ways
from trueneg.evaluation.zero_shot import PROMPTS, PromptPair, zero_shot_metrics
from trueneg.files import written_whole
from trueneg.study.store import RunStore, read_manifest
from trueneg.training.devices import leased_device
from trueneg.training.image_text_networks import Networks, read_networks

log = logging.getLogger(__name__)

SPLITS = ("validation", "test")
SMALLEST_BOX = 0.25  # share of a box's area that the central crop must hold


def evaluate_image_text_runs(
    *,
    source: str | Path,
    subsets: str | Path,
    manifest: str | Path,
    store: str | Path,
    settings: Mapping[str, Any],
    names: Mapping[str, str],
    device: str,
    rows: str | Path,
    boxes: str | Path | None = None,
) -> None:
    """Measure the runs that a manifest lists.

    Args:
        source: images and sentences (npz, with its parquet file beside it).
        subsets: the seeds' subsets (parquet).
        manifest: which runs (JSON).
        store: the run store's folder.
        settings: as for :func:`image_text_rows`, and ``threads``.
        names: ``study``, ``dataset`` and ``objective`` of the rows.
        device: as ``training.device``.
        rows: parquet file to write: study, dataset, objective, seed, split, task, setting, metric, value.
        boxes: parquet file of boxes, for grounding; None: no grounding.

    Raises:
        UserError: if a run, the source or the subsets are missing or do not belong together.
    """
    torch.set_num_threads(settings["threads"])
    pairs, listed = read_pairs(source), read_manifest(manifest, RunStore(store))
    by_seed = read_pair_subsets(subsets)
    table = None if boxes is None else pd.read_parquet(boxes)
    measured: list[dict[str, Any]] = []
    with leased_device(device) as leased:
        for run in listed:
            networks = read_networks(run["model"], RunStore(store).record(run["id"])["settings"])
            found = image_text_rows(networks, pairs, by_seed[run["seed"]], settings, device=leased, boxes=table)
            measured += [{**names, "seed": run["seed"], **row} for row in found]
            log.info("seed %d: %d measurements", run["seed"], len(measured))
    with written_whole(rows) as path:
        pd.DataFrame(measured).to_parquet(path, index=False)


def image_text_rows(
    networks: Networks,
    source: PairSource,
    subset: PairSubset,
    settings: Mapping[str, Any],
    *,
    device: torch.device,
    boxes: pd.DataFrame | None = None,
) -> list[dict[str, Any]]:
    """Zero-shot classification, retrieval, grounding and linear evaluation of one run, on both held-out splits.

    Args:
        networks: of the finished run (:func:`trueneg.training.image_text_networks.read_networks`).
        source: images and sentences.
        subset: the run's; no patient may be in two of its splits.
        settings: ``zero_shot`` (``prompts``: label → negative and positive; None: those of the paper), ``retrieval``
            (``ks``), ``grounding`` (``smoothing``), ``linear_probe`` (``fractions``, ``epochs``, ``batch_size``,
            ``learning_rate``, ``weight_decay``).
        device: where to compute.
        boxes: ``report``, ``class``, ``finding``, ``x0``, ``y0``, ``x1``, ``y1`` in pixels of the source's images.

    Returns:
        Rows: split, task, setting, metric, value. The name of a class follows the metric's; without one it is the mean.

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
            measured += _grounding(networks, source, images, boxes, settings["grounding"], device)
        rows += [{"split": split, **row} for row in measured]
    return rows


def _zero_shot(
    networks: Networks, source: PairSource, images: EmbeddedImages, settings: Mapping[str, Any], device: torch.device
) -> Iterator[dict[str, Any]]:
    given = settings["prompts"]
    prompts = PROMPTS if given is None else {name: PromptPair(**pair) for name, pair in given.items()}
    unknown = sorted(set(prompts) - set(source.label_names))
    if unknown and given is not None:
        raise UserError(
            f"evaluation.zero_shot.prompts names {', '.join(unknown)}, expected labels of {source.name}: "
            f"{', '.join(source.label_names)}."
        )
    labels = source.labels[images.indices]
    names = [name for name in _measurable(labels, source.label_names) if name in prompts]
    if not names:
        return
    scores = similarities(networks, [text for name in names for text in prompts[name]], images, device)
    columns = [source.label_names.index(name) for name in names]
    for metric, by_class in zero_shot_metrics(scores[::2].T, scores[1::2].T, labels[:, columns], names).items():
        yield from _by_class("zero-shot", "", metric, by_class)


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
    yield from _retrieval_rows("retrieval sentence", "relevant=report", scores, relevant, settings["ks"])
    classes = table["class"].to_numpy()[np.unique(numbers, return_index=True)[1]]
    if source.shown.shape[1]:
        true = np.where(classes[:, None] >= 0, source.shown[images.indices][:, classes].T, False)
        # What says nothing of any image here is no query, nor an image of which nothing is said.
        chosen = np.ix_(true.any(1), true.any(0))
        yield from _retrieval_rows("retrieval sentence", "relevant=truth", scores[chosen], true[chosen], settings["ks"])
    different = list(dict.fromkeys(said[report] for report in reports))
    of_reports = np.stack([scores[list(own)].mean(0) for own in different])
    equal = np.array([[own == said[report] for report in reports] for own in different])
    yield from _retrieval_rows("retrieval report", "relevant=report", of_reports, equal, settings["ks"])


def _retrieval_rows(
    task: str, setting: str, scores: np.ndarray, relevant: np.ndarray, ks: Sequence[int]
) -> Iterator[dict[str, Any]]:
    if scores.size:
        yield from (_row(task, setting, metric, value) for metric, value in retrieval_both_ways(scores, ks, relevant).items())


def _grounding(
    networks: Networks,
    source: PairSource,
    images: EmbeddedImages,
    boxes: pd.DataFrame,
    settings: Mapping[str, Any],
    device: torch.device,
) -> Iterator[dict[str, Any]]:
    """One phrase a sentence of an image that has boxes: heatmap against the union of its boxes, in the crop's pixels.

    A box of which the crop holds less than a quarter is left out; the rows count the phrases that remain.
    """
    size = networks.augmentation.cropped(source.size)
    window = ResizeAndCrop.centred(source.size, source.size, size)
    place_of = pd.Series(np.arange(len(images.indices)), index=source.reports[images.indices]).rename("image")
    phrases = boxes.merge(source.sentences[["report", "index", "sentence", "class"]], on=["report", "class"])
    phrases = phrases.merge(place_of, left_on="report", right_index=True).reset_index(drop=True)
    corners = phrases[["x0", "y0", "x1", "y1"]].to_numpy(np.float64)
    inside = window.boxes(corners) if len(phrases) else corners
    phrases = phrases[_areas(inside) >= SMALLEST_BOX * _areas(corners)].assign(row=lambda kept: kept.index)
    if phrases.empty:
        return
    numbers, texts = pd.factorize(phrases["sentence"])
    embedded, phrases = embed_texts(networks, texts.tolist(), device), phrases.assign(text=numbers)
    found: dict[str, list[float]] = {"CNR": [], "CNR signed": [], "mIoU": []}
    categories = []
    for (image, _), own in phrases.groupby(["image", "index"]):
        heatmap = networks.model.region_scores(embedded[int(own["text"].iloc[0])][None], images.part([image]))[0]
        pixels = upsample(heatmap.detach(), size, smoothing=settings["smoothing"])
        mask = box_masks(inside[own["row"].to_numpy()], size).any(0)
        if mask.all():
            continue
        found["CNR"].append(contrast_to_noise_ratio(pixels, mask))
        found["CNR signed"].append(contrast_to_noise_ratio(pixels, mask, signed=True))
        found["mIoU"].append(intersection_over_union(pixels, mask))
        categories.append(own["finding"].iloc[0])
    yield _row("grounding", "", "phrases", len(categories))
    for metric, values in found.items():
        means = mean_by_category(values, categories)
        yield from _by_class("grounding", "", metric, means | {"mean": means.pop("micro")})


def _linear(
    source: PairSource, training: EmbeddedImages, images: EmbeddedImages, settings: Mapping[str, Any], seed: int
) -> Iterator[dict[str, Any]]:
    """Multi-label linear evaluation on the frozen encoder's features; classes that a split lacks are left out."""
    known, wanted = source.labels[training.indices], source.labels[images.indices]
    names = [name for name in _measurable(known, source.label_names) if name in _measurable(wanted, source.label_names)]
    if not names:
        return
    columns = [source.label_names.index(name) for name in names]
    options = {key: value for key, value in settings.items() if key != "fractions"}
    areas = linear_evaluation(
        training.features,
        known[:, columns],
        images.features,
        wanted[:, columns],
        names,
        fractions=settings["fractions"],
        seed=seed,
        **options,
    )
    for fraction, by_class in areas.items():
        yield from _by_class("linear probe", f"fraction={fraction:g}", "AUC", by_class)


def _measurable(labels: np.ndarray, names: Sequence[str]) -> list[str]:
    """The labels with at least one positive and one negative image; the log names the others."""
    both = (labels == 1).any(0) & (labels == 0).any(0)
    if not both.all():
        lacking = ", ".join(name for name, measurable in zip(names, both, strict=True) if not measurable)
        log.warning("not measured, for want of positive or negative images among %d: %s", len(labels), lacking)
    return [name for name, measurable in zip(names, both, strict=True) if measurable]


def _areas(corners: np.ndarray) -> np.ndarray:
    return (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])


def _by_class(task: str, setting: str, metric: str, values: Mapping[Any, float]) -> Iterator[dict[str, Any]]:
    for name, value in values.items():
        yield _row(task, setting, metric if name == "mean" else f"{metric} {name}", value)


def _row(task: str, setting: str, metric: str, value: float) -> dict[str, Any]:
    return {"task": task, "setting": setting, "metric": metric, "value": float(value)}

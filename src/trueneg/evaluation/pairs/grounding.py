"""Grounding: how well the model localises the boxes that readers drew for sentences."""

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from pandas import DataFrame, Series
from torch import Tensor
from torchvision.ops import box_area

from trueneg.data.pairs.ms_cxr import CORNERS
from trueneg.data.pairs.pair_source import PairSource
from trueneg.errors import UserError
from trueneg.evaluation.grounding import (
    box_masks,
    boxes_in_crop,
    contrast_to_noise_ratio,
    intersection_over_union,
    mean_by_category,
    upsample,
)
from trueneg.evaluation.pair_features import EmbeddedImages
from trueneg.evaluation.pairs import EmbeddedPairs, Measured, of_classes
from trueneg.models.region_similarity import heatmaps
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)

SMALLEST_BOX = 0.25  # share of a box's area that must lie in the crop


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield the agreement of heatmaps with boxes, and the number of phrases."""
    for run, split, phrases, texts, crop in with_boxes(runs):
        maps = phrase_maps(
            run.images(split), texts, phrases, crop, settings["grounding"]["smoothing"]
        )
        for metric, by_finding in phrase_grounding(maps).items():
            yield from of_classes(run, split, Measurement("grounding", metric), by_finding)


def with_boxes(
    runs: Sequence[EmbeddedPairs],
) -> Iterator[tuple[EmbeddedPairs, str, DataFrame, Tensor, tuple[int, int]]]:
    """Yield run, split, phrases with boxes in the crop, one embedding per distinct sentence, and
    the crop's size.
    """
    for run, split in itertools.product(runs, SPLITS):
        if run.boxes is not None:
            crop = run.networks.columns.augmentation.evaluated_size(run.source.size)
            phrases = boxed_phrases(run.source, run.images(split).indices, run.boxes, crop)
            if run.images(split).embeddings.regions is None:
                log.warning(
                    "the data have boxes, but the image tower has no regions, so nothing is located"
                    " in images"
                )
            elif len(phrases):
                texts = run.embed_texts(phrases["sentence"].unique().tolist())
                yield run, split, phrases, texts, crop


def boxed_phrases(
    source: PairSource, indices: ndarray, boxes: DataFrame, crop: tuple[int, int]
) -> DataFrame:
    """Return the phrases that have boxes in the images, with the boxes in pixels of the crop.

    ===================  ===========================================================================
    boxes with           phrase
    ===================  ===========================================================================
    no ``sentence``      a sentence of the image's report with the report's boxes of the same class
                         (:func:`trueneg.data.phantom.radiographs.phantom_images`); one phrase per
                         image of the report
    a ``sentence``       that sentence for its ``image`` and finding, regardless of the report:
                         readers wrote or chose it for the box
                         (:func:`trueneg.data.pairs.ms_cxr.image_boxes`)
    ===================  ===========================================================================

    Boxes with less than a quarter of their area in the crop are left out.

    Args:
        source: source of images and sentences.
        indices: (n,) positions of the images in the source.
        boxes: ``report``, ``class`` (−1: unknown), ``finding``, and corners ``x0``, ``y0``, ``x1``,
            ``y1`` in pixels of the source's images; optionally ``sentence`` and ``image``, a
            position in the source.
        crop: (height, width) of the central part of an image that the encoder sees, or of the whole
            image.

    Returns:
        One row per box, sorted by phrase: ``phrase`` (0 … P − 1), ``image`` (index into
            ``indices``), ``index`` (index of the sentence in its report, or a running number),
            ``sentence``, ``class``, ``finding``, ``region`` (equal for phrases with the same boxes
            because they describe the same finding in an image), and the corners in pixels of the
            crop, clipped to it.

    Raises:
        UserError: if the boxes refer to images of another source.
    """
    boxes_have_sentences = "sentence" in boxes
    if boxes_have_sentences:
        images = boxes["image"].to_numpy(np.int64)
        in_source = (images >= 0) & (images < len(source.reports))
        if not in_source.all() or (source.reports[images] != boxes["report"].to_numpy(str)).any():
            raise UserError(
                f"{source.name}: the boxes refer to images of other reports; remove boxes and pairs"
                " to rebuild both."
            )
        phrases = boxes.assign(image=pd.Index(indices).get_indexer(images)).query("image >= 0")
        phrases = phrases.assign(
            index=phrases.groupby(["image", "sentence", "finding"], sort=False).ngroup()
        )
    else:
        phrases = boxes.merge(
            source.sentences[["report", "index", "sentence", "class"]], on=["report", "class"]
        )
        reports = DataFrame({"report": source.reports[indices], "image": np.arange(len(indices))})
        phrases = phrases.merge(reports, on="report")
    phrases = phrases.sort_values(["image", "index"], kind="stable")
    whole = phrases[CORNERS].to_numpy(np.float64)
    inside = boxes_in_crop(whole, source.size, crop)
    kept = (box_area(torch.tensor(inside)) >= SMALLEST_BOX * box_area(torch.tensor(whole))).numpy()
    phrases = phrases.assign(**dict(zip(CORNERS, inside.T, strict=True)))[kept]
    numbers = phrases.groupby(["image", "index"]).ngroup()
    regions = numbers if boxes_have_sentences else phrases.groupby(["image", "class"]).ngroup()
    return phrases.assign(phrase=numbers, region=regions)[
        ["phrase", "image", "index", "sentence", "class", "finding", "region", *CORNERS]
    ].reset_index(drop=True)


def phrase_maps(
    images: EmbeddedImages,
    texts: Tensor,
    phrases: DataFrame,
    crop: tuple[int, int],
    smoothing: float,
) -> Iterator[tuple[DataFrame, ndarray, ndarray]]:
    """Yield each phrase's rows, its heatmap at the resolution of the crop, and a mask of the union
    of its boxes.

    Args:
        images: images embedded with regions.
        texts: (U, D), one embedding per distinct sentence, in order of first occurrence in
            ``phrases``.
        phrases: phrases of these images (:func:`boxed_phrases`).
        crop: (height, width) of the crop.
        smoothing: see :func:`trueneg.evaluation.grounding.upsample`.
    """
    text_of = Series(pd.factorize(phrases["sentence"])[0], index=phrases.index)
    for _, boxes in phrases.groupby("phrase"):
        text = int(text_of[boxes.index[0]])
        image = int(boxes["image"].iloc[0])
        regions: Any = images.part([image]).regions
        heatmap = heatmaps(texts[text][None], regions)[0]
        pixels = upsample(heatmap.detach(), crop, smoothing=smoothing)
        yield boxes, pixels, np.any(box_masks(boxes[CORNERS].to_numpy(), crop), axis=0)


def phrase_grounding(
    maps: Iterable[tuple[DataFrame, ndarray, ndarray]],
) -> dict[str, dict[str, float]]:
    """Measure how well each phrase's heatmap agrees with the union of its boxes, given the output
    of :func:`phrase_maps`.

    Returns:
        ``"phrases"``: number of phrases, except those whose boxes cover the whole crop, or the
            centre of no pixel; ``"CNR"``, ``"CNR signed"``, ``"mIoU"``: the value per finding, the
            mean over all phrases (``"mean"``) and the mean over findings (``"macro"``).
    """
    measured = [
        (
            boxes["finding"].iloc[0],
            contrast_to_noise_ratio(pixels, mask, signed=True),
            intersection_over_union(pixels, mask),
        )
        for boxes, pixels, mask in maps
        if mask.any() and not mask.all()
    ]
    metrics = {"phrases": {"mean": float(len(measured))}}
    if measured:
        findings, ratios, overlaps = zip(*measured, strict=True)
        by_metric = {"CNR": list(map(abs, ratios)), "CNR signed": ratios, "mIoU": overlaps}
        metrics |= {
            metric: mean_by_category(values, findings) for metric, values in by_metric.items()
        }
    return metrics

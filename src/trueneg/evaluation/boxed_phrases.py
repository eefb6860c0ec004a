"""Sentences of reports with the boxes that readers drew for them, and how well the model grounds them."""

import numpy as np
import pandas as pd
from torch import Tensor

from trueneg.datasets.pairs import PairSource
from trueneg.evaluation.grounding import (
    ResizeAndCrop,
    box_masks,
    contrast_to_noise_ratio,
    intersection_over_union,
    mean_by_category,
    upsample,
)
from trueneg.evaluation.pair_features import EmbeddedImages
from trueneg.models.image_text import ImageTextModel

CORNERS = ["x0", "y0", "x1", "y1"]
SMALLEST_BOX = 0.25  # share of a box's area that the crop must hold


def boxed_phrases(source: PairSource, indices: np.ndarray, boxes: pd.DataFrame, window: ResizeAndCrop) -> pd.DataFrame:
    """The sentences of some images that have boxes, with those boxes in the crop's pixels.

    A phrase is a sentence of an image's report. It has the boxes of its report that are of its own class. Two images of
    one report are two phrases. A box of which the crop holds less than a quarter is left out.

    Args:
        source: images and sentences.
        indices: (n,) positions of the images in the source.
        boxes: ``report``, ``class``, ``finding``, and corners ``x0``, ``y0``, ``x1``, ``y1`` in pixels of the source's images.
        window: what the encoder sees of an image.

    Returns:
        A row a box, sorted: ``phrase`` (0 … P − 1), ``image`` (a place in ``indices``), ``index`` and ``sentence`` (of the
        report), ``class``, ``finding``, and the corners in pixels of the crop, clipped to it.

    Raises:
        ValueError: if a box is not (x0 < x1, y0 < y1).
    """
    place_of = pd.Series(np.arange(len(indices)), index=source.reports[indices]).rename("image")
    found = boxes.merge(source.sentences[["report", "index", "sentence", "class"]], on=["report", "class"])
    found = found.merge(place_of, left_on="report", right_index=True).sort_values(["image", "index"], kind="stable")
    whole = found[CORNERS].to_numpy(np.float64)
    inside = window.boxes(whole) if len(found) else whole
    vertical, horizontal = window.scale
    kept = _areas(inside) >= SMALLEST_BOX * vertical * horizontal * _areas(whole)
    found = found.assign(**dict(zip(CORNERS, inside.T, strict=True)))[kept]
    numbers = found.groupby(["image", "index"]).ngroup()
    return found.assign(phrase=numbers)[["phrase", "image", "index", "sentence", "class", "finding", *CORNERS]].reset_index(
        drop=True
    )


def phrase_grounding(
    model: ImageTextModel,
    images: EmbeddedImages,
    texts: Tensor,
    phrases: pd.DataFrame,
    crop: tuple[int, int],
    *,
    smoothing: float = 0.0,
) -> dict[str, dict[str, float]]:
    """How each phrase's heatmap agrees with the union of its boxes, in the crop's pixels.

    Args:
        model: of the finished run.
        images: with regions.
        texts: (U, D), an embedding for each different sentence, in the order in which they first occur in ``phrases``.
        phrases: of these images (:func:`boxed_phrases`), at least one.
        crop: its (height, width).
        smoothing: as for :func:`trueneg.evaluation.grounding.upsample`.

    Returns:
        ``"phrases"``, how many (one whose boxes cover the whole crop is none); ``"CNR"``, ``"CNR signed"``, ``"mIoU"``: for
        each finding and, as ``"mean"``, over all phrases (``"macro"``: over findings).
    """
    text_of = pd.Series(pd.factorize(phrases["sentence"])[0], index=phrases.index)
    found: dict[str, list[float]] = {"CNR": [], "CNR signed": [], "mIoU": []}
    findings = []
    for _, own in phrases.groupby("phrase"):
        mask = box_masks(own[CORNERS].to_numpy(), crop).any(0)
        if mask.all():
            continue
        text, image = int(text_of[own.index[0]]), int(own["image"].iloc[0])
        heatmap = model.region_scores(texts[text][None], images.part([image]))[0]
        pixels = upsample(heatmap.detach(), crop, smoothing=smoothing)
        found["CNR"].append(contrast_to_noise_ratio(pixels, mask))
        found["CNR signed"].append(contrast_to_noise_ratio(pixels, mask, signed=True))
        found["mIoU"].append(intersection_over_union(pixels, mask))
        findings.append(own["finding"].iloc[0])
    metrics = {"phrases": {"mean": float(len(findings))}}
    if findings:
        for metric, values in found.items():
            means = mean_by_category(values, findings)
            metrics[metric] = means | {"mean": means.pop("micro")}
    return metrics


def _areas(corners: np.ndarray) -> np.ndarray:
    return (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])

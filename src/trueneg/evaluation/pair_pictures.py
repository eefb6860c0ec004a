"""Figure data for a finished image–text run, in addition to its metrics: similarities by relation
and heatmaps over images.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from pandas import DataFrame
from torchvision.transforms.v2.functional import center_crop

from trueneg.data.pairs.chexpert_8x200 import Benchmark
from trueneg.data.pairs.ms_cxr import CORNERS
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import first_run
from trueneg.evaluation.grounding import contrast_to_noise_ratio
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.evaluation.pairs.chexpert_8x200 import scored_queries
from trueneg.evaluation.pairs.grounding import boxed_phrases, phrase_maps
from trueneg.evaluation.said import OTHER, OWN, RELATIONS, TRUE, said_of
from trueneg.io.files import write_tables
from trueneg.randomness import seed_for
from trueneg.specs.sections import Section

HEATMAP_COLUMNS = ["report", "finding", "sentence", "size", "pixels", "heatmap", *CORNERS, "CNR"]
AT_MOST = 20_000  # similarities per relation
ALL = "all pairs"  # of any relation


def picture_run(
    *,
    settings: Section,
    phrases: int,
    similarities: str | Path,
    overlays: str | Path,
    **block: Any,
) -> None:
    """Write figure data for the first run of a manifest: similarities (on CheXpert 8×200 if given)
    and heatmaps over test images.

    Args:
        settings: the study's evaluation settings.
        phrases: maximum number of phrases with heatmaps.
        similarities: output parquet file (:func:`similarities_by_class` or
            :func:`similarities_by_truth`).
        overlays: output parquet file (:func:`phrase_heatmaps`).
        block: further arguments of :func:`trueneg.evaluation.evaluate.first_run`.

    Raises:
        UserError: if heatmaps are requested for a restricted source, whose images must not appear
            in figures.
    """
    with first_run(**block) as (encoded, names):
        if encoded.source.restricted and phrases:
            raise UserError(
                f"{block['source']} is restricted, so figures must not show its images; remove"
                " figures.overlays."
            )
        heatmaps = phrase_heatmaps(encoded, phrases, settings["grounding"]["smoothing"])
        shown = (
            similarities_by_class(encoded, encoded.benchmark)
            if encoded.benchmark
            else similarities_by_truth(encoded)
        )
        write_tables({similarities: shown.assign(**names), overlays: heatmaps.assign(**names)})


def similarities_by_truth(run: EmbeddedPairs) -> DataFrame:
    """Return the ``similarity`` and the ``relation`` between distinct sentences and test images.

    A sentence and an image of the same report are an "own pair". Other sentences that are known to
    be true of the image are the false negatives. If no class is known, all other sentences count as
    not true. A further sample is from all pairs (ReCo, Fig. 6).
    """
    said = said_of(run.source, run.subset.test)
    scores = run.similarities(said.texts, "test")
    by_relation = {
        relation: scores[said.relation == RELATIONS.index(relation)]
        for relation in (OWN, TRUE, OTHER)
    }
    return _drawn(run, by_relation | {ALL: scores.ravel()})


def similarities_by_class(run: EmbeddedPairs, benchmark: Benchmark) -> DataFrame:
    """Return similarities between the queries of CheXpert 8×200 and its candidate images (ReCo,
    Fig. 4).

    Returns:
        ``pairs`` (text–image or image–image), ``relation`` (same class, another class or all pairs)
            and ``similarity``.
    """
    by_image, by_text = scored_queries(run, benchmark)
    parts = []
    for pairs, (scores, wanted, labels) in (("text–image", by_text), ("image–image", by_image)):
        same = wanted[:, None] == labels
        by_relation = {
            "same class": scores[same],
            "another class": scores[~same],
            ALL: scores.ravel(),
        }
        parts.append(_drawn(run, by_relation).assign(pairs=pairs))
    return pd.concat(parts, ignore_index=True)


def _drawn(run: EmbeddedPairs, by_relation: Mapping[str, ndarray]) -> DataFrame:
    """Draw at most :data:`AT_MOST` similarities per relation."""
    generator = np.random.default_rng(seed_for(run.subset.seed, "shown similarities"))
    parts = []
    for relation, values in by_relation.items():
        if len(values) > AT_MOST:
            values = generator.choice(values, AT_MOST, replace=False)
        parts.append(DataFrame({"relation": relation, "similarity": values.astype(np.float32)}))
    return pd.concat(parts, ignore_index=True)


@torch.no_grad()
def phrase_heatmaps(run: EmbeddedPairs, count: int, smoothing: float) -> DataFrame:
    """Compute heatmaps of up to `count` phrases on their test images, with findings as varied as
    possible.

    The phrases are the same for all networks.

    Returns:
        One row per phrase: ``report``, ``finding``, ``sentence``, ``size`` (side of the crop),
            ``pixels`` (its uint8 grey values as bytes), ``heatmap`` (float32, as bytes), box
            corners ``x0``, ``y0``, ``x1``, ``y1`` (lists), ``CNR``.
    """
    if run.boxes is None or run.images("test").embeddings.regions is None:
        return DataFrame(columns=HEATMAP_COLUMNS)
    source = run.source
    images = run.images("test")
    crop = run.networks.columns.augmentation.evaluated_size(source.size)
    phrases = boxed_phrases(source, images.indices, run.boxes, crop)
    first = phrases.drop_duplicates("phrase")
    # Take the first phrase of every finding, then the second of every finding, and so on.
    turns = first.assign(turn=first.groupby("finding").cumcount()).sort_values(
        ["turn", "finding"], kind="stable"
    )
    rows = []
    for phrase in turns["phrase"].head(count):
        boxes = phrases[phrases["phrase"] == phrase]
        text = run.embed_texts(boxes["sentence"].head(1).tolist())
        ((_, scores, mask),) = phrase_maps(images, text, boxes, crop, smoothing)
        position = images.indices[boxes["image"].iloc[0]]
        pixels = center_crop(torch.from_numpy(np.array(source.images[position, 0])), list(crop))
        rows.append(
            {
                "report": source.reports[position],
                "finding": boxes["finding"].iloc[0],
                "sentence": boxes["sentence"].iloc[0],
                "size": crop[0],
                "pixels": pixels.numpy().tobytes(),
                "heatmap": np.asarray(scores, np.float32).tobytes(),
                **{corner: boxes[corner].tolist() for corner in CORNERS},
                "CNR": float("nan") if mask.all() else contrast_to_noise_ratio(scores, mask),
            }
        )
    return DataFrame(rows, columns=HEATMAP_COLUMNS)

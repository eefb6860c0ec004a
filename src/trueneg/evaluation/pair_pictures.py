"""What figures show of a finished image–text run beyond its measurements: similarities by truth, heatmaps over images."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from trueneg.compute.devices import leased_device
from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.pairs.pair_splits import read_pair_subsets
from trueneg.errors import UserError
from trueneg.evaluation.boxed_phrases import CORNERS, boxed_phrases
from trueneg.evaluation.grounding import ResizeAndCrop, box_masks, contrast_to_noise_ratio, upsample
from trueneg.evaluation.pair_features import EmbeddedImages, embed_images, embed_texts, similarities
from trueneg.evaluation.training_records import manifest_names
from trueneg.io.files import written_whole
from trueneg.randomness import seed_for
from trueneg.store.records import read_rows
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.training.image_text_networks import Networks, read_networks

OWN, TRUE, OTHER = "own pair", "true of the image", "not true of the image"
HEATMAP_COLUMNS = ["report", "finding", "sentence", "size", "pixels", "heatmap", *CORNERS, "CNR"]
AT_MOST = 20_000  # similarities of each relation


def picture_run(
    *,
    source: str | Path,
    boxes: str | Path | None,
    subsets: str | Path,
    manifest: str | Path,
    store: str | Path,
    settings: Mapping[str, Any],
    phrases: int,
    device: str,
    similarities: str | Path,
    overlays: str | Path,
) -> None:
    """Write what figures show of the first run of a manifest, on its test images.

    Args:
        source: images and sentences (npz, with its parquet file beside it).
        boxes: parquet file of boxes; None: no heatmaps.
        subsets: the seeds' subsets (parquet).
        manifest: which runs (JSON).
        store: the run store's folder.
        settings: of the evaluation: ``threads``, ``grounding``.
        phrases: how many heatmaps.
        device: as ``training.device``.
        similarities: parquet file to write: dataset, objective, seed, relation, similarity (:func:`similarities_by_truth`).
        overlays: parquet file to write: dataset, objective, seed, and the columns of :func:`phrase_heatmaps`.

    Raises:
        UserError: if a run, the source or the subsets are missing or do not belong together, or the source is restricted.
    """
    torch.set_num_threads(settings["threads"])
    pairs, run, names = read_pairs(source), read_manifest(manifest, RunStore(store))[0], manifest_names(manifest)
    if pairs.restricted and phrases:
        raise UserError(f"{source}: is restricted, so no figure may show its images; leave figures.overlays out.")
    subset, drawn = read_pair_subsets(subsets)[run["seed"]], read_rows(boxes)
    labels = {"dataset": names["dataset"], "objective": names["objective"], "seed": run["seed"]}
    with leased_device(device) as leased:
        networks = read_networks(run["model"], RunStore(store).record(run["id"])["settings"])
        networks.model.to(leased)
        networks.augmentation.to(leased)
        images = embed_images(networks, pairs, subset.test, leased, regions=True)
        tables = {
            similarities: similarities_by_truth(networks, pairs, images, run["seed"], leased),
            overlays: pd.DataFrame(columns=HEATMAP_COLUMNS)
            if drawn.empty
            else phrase_heatmaps(networks, pairs, images, drawn, phrases, settings["grounding"], leased),
        }
    for path, table in tables.items():
        with written_whole(path) as temporary:
            table.assign(**labels)[[*labels, *table.columns]].to_parquet(temporary, index=False)


def similarities_by_truth(
    networks: Networks, source: PairSource, images: EmbeddedImages, seed: int, device: torch.device
) -> pd.DataFrame:
    """Similarities of different sentences with images, by what the one says of the other.

    Args:
        networks: in evaluation mode.
        source: of the images.
        images: with regions where the similarity needs them.
        seed: of the draw, where a relation has more than can be shown.
        device: where to compute.

    Returns:
        ``relation`` and ``similarity``. A sentence of the image's report is its own pair; of the other sentences some are
        known to be true of the image, the false negatives. Where no class is known, all others are taken as not true.
    """
    reports = source.reports[images.indices]
    table = source.sentences[source.sentences["report"].isin(reports)].drop_duplicates(["report", "sentence"])
    numbers, texts = pd.factorize(table["sentence"], sort=True)
    scores = similarities(networks, texts.tolist(), images, device)
    own = np.zeros(scores.shape, dtype=bool)
    for report, of_report in pd.Series(numbers).groupby(table["report"].to_numpy()):
        own[np.ix_(of_report, reports == report)] = True
    classes = table["class"].to_numpy()[np.unique(numbers, return_index=True)[1]]
    true = np.zeros(scores.shape, dtype=bool)
    known = classes >= 0
    true[known] = source.shown[images.indices][:, classes[known]].T
    generator = np.random.default_rng(seed_for(seed, "shown similarities"))
    parts = []
    for relation, chosen in ((OWN, own), (TRUE, true & ~own), (OTHER, ~true & ~own)):
        values = scores[chosen]
        if len(values) > AT_MOST:
            values = generator.choice(values, AT_MOST, replace=False)
        parts.append(pd.DataFrame({"relation": relation, "similarity": values.astype(np.float32)}))
    return pd.concat(parts, ignore_index=True)


@torch.no_grad()
def phrase_heatmaps(
    networks: Networks,
    source: PairSource,
    images: EmbeddedImages,
    boxes: pd.DataFrame,
    count: int,
    grounding: Mapping[str, Any],
    device: torch.device,
) -> pd.DataFrame:
    """Heatmaps of some phrases over their images, of different findings as far as there are; the same for all networks.

    Args:
        networks: in evaluation mode.
        source: of the images.
        images: with regions.
        boxes: as for :func:`trueneg.evaluation.boxed_phrases.boxed_phrases`.
        count: how many phrases.
        grounding: ``smoothing`` of the heatmaps.
        device: where to compute.

    Returns:
        A row a phrase: ``report``, ``finding``, ``sentence``, ``size`` (side of the crop), ``pixels`` (its uint8 grey values as
        bytes), ``heatmap`` (float32, likewise), the boxes' corners ``x0``, ``y0``, ``x1``, ``y1`` (lists), ``CNR``.
    """
    crop = networks.augmentation.cropped(source.size)
    window = ResizeAndCrop.centred(source.size, source.size, crop)
    phrases = boxed_phrases(source, images.indices, boxes, window)
    first = phrases.drop_duplicates("phrase")
    # The first phrase of every finding, then the second of every finding, and so on.
    turns = first.assign(turn=first.groupby("finding").cumcount()).sort_values(["turn", "finding"], kind="stable")
    rows = []
    for chosen in turns.head(count).itertuples():
        own = phrases[phrases["phrase"] == chosen.phrase]
        text = embed_texts(networks, [chosen.sentence], device)
        heatmap = networks.model.region_scores(text, images.part([chosen.image]))[0]
        scores = upsample(heatmap, crop, smoothing=grounding["smoothing"])
        mask = box_masks(own[CORNERS].to_numpy(), crop).any(0)
        position = images.indices[chosen.image]
        top, left = window.corner
        pixels = np.asarray(source.images[position, 0, top : top + crop[0], left : left + crop[1]])
        rows.append(
            {
                "report": source.reports[position],
                "finding": chosen.finding,
                "sentence": chosen.sentence,
                "size": crop[0],
                "pixels": pixels.tobytes(),
                "heatmap": np.asarray(scores, np.float32).tobytes(),
                **{corner: own[corner].tolist() for corner in CORNERS},
                "CNR": float("nan") if mask.all() else contrast_to_noise_ratio(scores, mask),
            }
        )
    return pd.DataFrame(rows, columns=HEATMAP_COLUMNS)

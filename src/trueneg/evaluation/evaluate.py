"""Measures a block of runs, of images or of images with sentences, and gathers what their training left."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trueneg.compute.devices import leased_device
from trueneg.config.runs import training_kind
from trueneg.evaluation.image_text_runs import pair_rows
from trueneg.evaluation.protocol import image_rows
from trueneg.evaluation.training_records import gather_training
from trueneg.store.rows import save_rows
from trueneg.store.run_store import RunStore, read_manifest

# By the kind of training, from runs, their store, the data, the settings and the device to rows.
MEASURE = {"images": image_rows, "image-text": pair_rows}


def evaluate_runs(
    *,
    source: str | Path,
    subsets: str | Path,
    manifest: str | Path,
    names: Mapping[str, str],
    store: str | Path,
    settings: Mapping[str, Any],
    device: str,
    rows: str | Path,
    curves: str | Path,
    runs: str | Path,
    boxes: str | Path | None = None,
    benchmark: str | Path | None = None,
) -> None:
    """Measure the runs that a manifest lists, and gather their training curves and records.

    Args:
        source: decoded images (npz); or images and sentences (npz, with its parquet file beside it).
        subsets: the seeds' subsets (parquet).
        manifest: which runs (JSON).
        names: what their rows are named by (:data:`trueneg.store.rows.NAMES`).
        store: the run store's folder.
        settings: resolved evaluation settings.
        device: as ``training.device``.
        rows: parquet file to write (:data:`trueneg.store.rows.COLUMNS`).
        curves: parquet file to write: the training curves, with these names, seed and run.
        runs: JSON file to write: the records of the runs.
        boxes: of images with sentences: parquet file of boxes; without rows nothing is grounded.
        benchmark: CheXpert 8×200 (npz, with its parquet file beside it); None: it is not measured.

    Raises:
        UserError: if a run, the data or the subsets are missing or do not belong together.
    """
    torch.set_num_threads(settings["threads"])
    kept = RunStore(store)
    listed = read_manifest(manifest, kept)
    measure = MEASURE[training_kind(kept.record(listed[0]["id"])["settings"])]
    data = {"source": source, "subsets": subsets, "boxes": boxes, "benchmark": benchmark}
    with leased_device(device) as leased:
        measured = [{**names, **row} for row in measure(listed, kept, data, settings, leased)]
    save_rows(measured, rows)
    gather_training(listed, kept, manifest, names, curves, runs)

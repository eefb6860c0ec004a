"""The measurements of a block of image–text runs, with what their training left."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trueneg.compute.devices import leased_device
from trueneg.data.pairs.chexpert_8x200 import read_benchmark
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.pair_splits import read_pair_subsets
from trueneg.evaluation.chexpert_8x200 import chexpert_8x200_rows
from trueneg.evaluation.image_text import image_text_rows
from trueneg.evaluation.training_records import gather_training
from trueneg.store.records import read_rows
from trueneg.store.rows import save_rows
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.training.image_text_networks import read_networks

log = logging.getLogger(__name__)


def evaluate_image_text_runs(
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
    boxes: str | Path,
    benchmark: str | Path | None = None,
) -> None:
    """Measure the runs that a manifest lists, and gather their training curves and records.

    Args:
        source: images and sentences (npz, with its parquet file beside it).
        subsets: the seeds' subsets (parquet).
        manifest: which runs (JSON).
        names: what their rows are named by (:data:`trueneg.store.rows.NAMES`).
        store: the run store's folder.
        settings: as for :func:`~trueneg.evaluation.image_text.image_text_rows`, and ``threads``.
        device: as ``training.device``.
        rows: parquet file to write (:data:`trueneg.store.rows.COLUMNS`).
        curves: parquet file to write: the training curves, with these names, seed and run.
        runs: JSON file to write: the records of the runs.
        boxes: parquet file of boxes, for grounding; without rows nothing is grounded.
        benchmark: CheXpert 8×200 (npz, with its parquet file beside it); None: it is not measured.

    Raises:
        UserError: if a run, the source or the subsets are missing or do not belong together.
    """
    torch.set_num_threads(settings["threads"])
    kept = RunStore(store)
    pairs, listed, by_seed = read_pairs(source), read_manifest(manifest, kept), read_pair_subsets(subsets)
    known = read_rows(boxes)
    table = None if known.empty else known
    to_find = None if benchmark is None else read_benchmark(benchmark)
    measured: list[dict[str, Any]] = []
    with leased_device(device) as leased:
        for run in listed:
            networks = read_networks(run["model"], kept.record(run["id"])["settings"])
            found = image_text_rows(networks, pairs, by_seed[run["seed"]], settings, device=leased, boxes=table)
            if to_find is not None:
                found += chexpert_8x200_rows(networks, to_find, device=leased, ks=settings["chexpert_8x200"]["ks"])
            measured += [{**names, "seed": run["seed"], "run": run["id"], **row} for row in found]
            log.info("seed %d: %d measurements", run["seed"], len(found))
    save_rows(measured, rows)
    gather_training(listed, kept, manifest, names, curves, runs)

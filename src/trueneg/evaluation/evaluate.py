"""Measures a block of runs by every task of their kind of study, and gathers what their training left."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from trueneg.compute.devices import leased_device
from trueneg.config.runs import training_kind
from trueneg.evaluation.training_records import gather_training
from trueneg.store.provenance import TASKS
from trueneg.store.rows import save_rows
from trueneg.store.run_store import RunStore, read_manifest


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
    """Measure the runs of a manifest: `rows`, their training `curves` and records (`runs`), under these `names`."""
    torch.set_num_threads(settings["threads"])
    kept = RunStore(store)
    listed = read_manifest(manifest, kept)
    package = TASKS[training_kind(kept.record(listed[0]["id"])["settings"])]
    data = {"source": source, "subsets": subsets, "boxes": boxes, "benchmark": benchmark}
    with leased_device(device) as leased:
        encoded = importlib.import_module(package).encoded(listed, kept, data, leased)
        measured = [{**names, **row} for ready in encoded for row in rows_of(package, ready, settings)]
    save_rows(measured, rows)
    gather_training(listed, kept, manifest, names, curves, runs)


def rows_of(package: str, runs: Sequence[Any], settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of some encoded runs, by every task of a package but those whose section of the settings is None."""
    for _, name, _ in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if settings.get(name, {}) is not None:
            task = importlib.import_module(f"{package}.{name}")
            for run, split, measured, value in task.measure(runs, settings):
                yield {"seed": run.subset.seed, "run": run.id, "split": split, **measured._asdict(), "value": float(value)}

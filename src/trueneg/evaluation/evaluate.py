"""Evaluate a block of runs on every task for their kind of study, and collect their training records."""

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from trueneg.compute.devices import leased_device
from trueneg.config.runs import training_kind
from trueneg.evaluation.training_records import gather_training
from trueneg.store.provenance import TASKS
from trueneg.store.rows import save_rows
from trueneg.store.run_store import RunStore, read_manifest


class Data(NamedTuple):
    """Files with the evaluation data of runs; boxes and CheXpert 8×200 images are optional."""

    source: str | Path
    subsets: str | Path
    boxes: str | Path | None = None
    benchmark: str | Path | None = None


@contextlib.contextmanager
def encoded_runs(
    manifest: str | Path, store: str | Path, data: Data, device: str, threads: int, count: int | None = None
) -> Iterator[tuple[str, Iterator[list[Any]]]]:
    """Yield the task package for a manifest's runs, and all runs or the first `count`, encoded on a leased device."""
    torch.set_num_threads(threads)
    kept = RunStore(store)
    listed = read_manifest(manifest, kept)[:count]
    package = TASKS[training_kind(kept.record(listed[0]["id"])["settings"])]
    with leased_device(device) as leased:
        yield package, importlib.import_module(package).encoded(listed, kept, data, leased)


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
    """Evaluate a manifest's runs; write `rows`, training `curves` and records (`runs`), labelled with `names`."""
    data = Data(source, subsets, boxes, benchmark)
    with encoded_runs(manifest, store, data, device, settings["threads"]) as (package, encoded):
        measured = [{**names, **row} for ready in encoded for row in rows_of(package, ready, settings)]
    save_rows(measured, rows)
    gather_training(manifest, RunStore(store), names, curves, runs)


def rows_of(package: str, runs: Sequence[Any], settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield rows for the encoded runs from every task of a package, except tasks whose settings section is None."""
    for _, name, _ in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if settings.get(name, {}) is not None:
            task = importlib.import_module(f"{package}.{name}")
            for run, split, measured, value in task.measure(runs, settings):
                yield {"seed": run.subset.seed, "run": run.id, "split": split, **measured._asdict(), "value": float(value)}

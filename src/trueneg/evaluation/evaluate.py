"""Encode finished runs, evaluate them with every task for their kind of training, and collect their training records."""

import contextlib
import importlib
import json
import pkgutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from trueneg.config.runs import training_kind
from trueneg.errors import UserError
from trueneg.io.files import write_tables, write_text
from trueneg.runtime.devices import leased_device
from trueneg.specs.stages import VERSIONS
from trueneg.store import provenance, records, versions
from trueneg.store.exchange import imported_rows
from trueneg.store.rows import save_rows
from trueneg.store.run_store import RunStore, read_manifest


class Data(NamedTuple):
    """Files with the evaluation data of runs; boxes and CheXpert 8×200 images are optional."""

    source: str | Path
    subsets: str | Path
    boxes: str | Path | None = None
    benchmark: str | Path | None = None


class Block(NamedTuple):
    """The runs of a manifest, encoded on a leased device.

    Attributes:
        names: the study, dataset and objective that the runs were trained for, and the variant if a winner decided it.
        listed: the runs' entries in the manifest.
        store: the store of the runs.
        tasks: dotted name of the package with the evaluation tasks for the runs.
        runs: encoded runs, in lists that are evaluated together.
    """

    names: dict[str, str]
    listed: list[dict[str, Any]]
    store: RunStore
    tasks: str
    runs: Iterator[list[Any]]


@contextlib.contextmanager
def encoded_runs(
    *,
    manifest: str | Path,
    store: str | Path,
    device: str,
    threads: int,
    count: int | None = None,
    without: Collection[str] = (),
    **data: Any,
) -> Iterator[Block]:
    """Yield the runs of a manifest, encoded on a leased device.

    Args:
        manifest: the manifest of the runs.
        store: folder of the run store.
        device: device to lease.
        threads: number of CPU threads that torch uses.
        count: number of runs to encode, in the order of the manifest; None: all runs.
        without: ids of runs to leave out; if nothing is left, no device is leased.
        data: the fields of :class:`Data`.

    Raises:
        UserError: if a run to encode was imported without weights, or trained before the VERSION of the subsets was raised.
    """
    torch.set_num_threads(threads)
    kept = RunStore(store)
    listed = read_manifest(manifest, kept, count)
    tasks = f"trueneg.evaluation.{versions.TASKS[training_kind(kept.record(listed[0]['id'])['settings'])]}"
    remaining = [run for run in listed if run["id"] not in without]
    for run in remaining:
        if run["model"] is None:
            found = f"{kept.folder(run['id'])}: this run was imported without the weights that this step needs"
            raise UserError(f"{found}. Remove its folder and {manifest} to train it again.")
        recorded = kept.record(run["id"]).get("code", {"versions": {}})["versions"]
        if change := versions.raised(recorded, {"subsets": VERSIONS["subsets"]}):
            found = f"{kept.folder(run['id'])}: this run was trained with {change[0]}, so it may have seen today's test images"
            raise UserError(f"{found}. Train it again: snakemake --config retrain_stale=true.")
    with leased_device(device) if remaining else contextlib.nullcontext(torch.device("cpu")) as leased:
        runs = importlib.import_module(tasks).encoded(remaining, kept, Data(**data), leased) if remaining else iter(())
        yield Block(manifest_names(manifest), listed, kept, tasks, runs)


@contextlib.contextmanager
def first_run(**block: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the first run of a manifest and the columns that identify its artefacts; see :func:`encoded_runs` for arguments."""
    with encoded_runs(**block, count=1) as encoded:
        ((run,),) = encoded.runs
        yield run, {"dataset": encoded.names["dataset"], "objective": encoded.names["objective"], "seed": run.subset.seed}


def evaluate_runs(
    *, names: Mapping[str, str], settings: Mapping[str, Any], rows: str | Path, curves: str | Path, runs: str | Path, **block: Any
) -> None:
    """Evaluate the runs of a manifest with all tasks for their kind of training; imported runs keep their rows.

    Args:
        names: columns that label the results; missing ones are taken from the manifest.
        settings: the study's evaluation settings.
        rows: output parquet file with the measured rows.
        curves: output parquet file with the training curves.
        runs: output JSON file with the records of the runs.
        block: further arguments of :func:`encoded_runs`.
    """
    store, listed = RunStore(block["store"]), records.read_json(block["manifest"], records.Manifest)["runs"]
    imported = {run["id"]: imported_rows(store, run["id"], settings) for run in listed if store.state(run["id"]) == "imported"}
    with encoded_runs(threads=settings["threads"], without=imported, **block) as encoded:
        names = {**encoded.names, **names}
        measured = [{**names, **row} for found in imported.values() for row in found["rows"]]
        measured += [{**names, **row} for ready in encoded.runs for row in rows_of(encoded.tasks, ready, settings)]
    save_rows(measured, rows)
    gather_training(encoded, names, settings, imported, curves=curves, runs=runs)


def rows_of(package: str, runs: Sequence[Any], settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows measured on encoded runs by every task of a package, skipping tasks whose settings section is None."""
    for _, name, _ in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if settings.get(name, {}) is not None:
            task = importlib.import_module(f"{package}.{name}")
            for run, split, measured, value in task.measure(runs, settings):
                yield {"seed": run.subset.seed, "run": run.id, "split": split, **measured._asdict(), "value": float(value)}


def gather_training(
    block: Block,
    names: Mapping[str, str],
    settings: Mapping[str, Any],
    imported: Mapping[str, Mapping[str, Any]],
    *,
    curves: str | Path,
    runs: str | Path,
) -> None:
    """Write the training curves (`curves`) and records (`runs`) of evaluated runs, with the provenance of their evaluation.

    Args:
        block: the runs.
        names: columns that label the curves; a run may have been trained for another study under other names.
        settings: the evaluation settings.
        imported: imported rows by run, with the provenance of their evaluation (``evaluated``).
        curves: parquet file to write.
        runs: JSON file to write.
    """
    trained, made = [], []
    for run in block.listed:
        path = block.store.folder(run["id"]) / RunStore.CURVES
        curve = records.read_rows(path, remedy="Remove its folder to train the run again.")
        trained.append(curve.assign(**names, seed=run["seed"], run=run["id"]))
        record = block.store.record(run["id"])
        if run["id"] in imported:
            evaluated = imported[run["id"]]["evaluated"]
        else:
            code = versions.evaluation_versions(training_kind(record["settings"]), settings)
            evaluated = provenance.environment(code) | {"settings": settings}
        made.append({**record, **block.names, "evaluated": evaluated})
    write_tables({curves: pd.concat(trained)})
    write_text(runs, json.dumps(made, indent=2) + "\n")


def manifest_names(manifest: str | Path) -> dict[str, str]:
    """Return the study, dataset, objective and, if a winner decided it, variant that the runs of a manifest were trained for."""
    content = records.read_json(manifest, records.Manifest)
    return {key: content[key] for key in ("study", "dataset", "objective", "variant") if key in content}

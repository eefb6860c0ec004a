"""Encode finished runs, evaluate them with every task for their kind of training, and collect their
training records.
"""

import contextlib
import importlib
import pkgutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from trueneg.data.draw import read_samples
from trueneg.data.samples import Subset, read_subsets
from trueneg.errors import UserError
from trueneg.runtime.devices import leased_device
from trueneg.specs.kinds import kind_of
from trueneg.specs.sections import Section
from trueneg.specs.stages import VERSIONS
from trueneg.store import provenance, records, versions
from trueneg.store.evaluations import evaluation, gather_block, keep_evaluation, listed_for
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.training.frozen import read_frozen, with_vectors_apart


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
) -> Iterator[Iterator[list[Any]]]:
    """Yield an iterator over the runs of a manifest, encoded on a leased device, in lists that are
    evaluated together.

    Args:
        manifest: the manifest of the runs.
        store: folder of the run store.
        device: device to lease.
        threads: number of CPU threads that torch uses.
        count: number of runs to encode, in the order of the manifest; None: all runs.
        without: ids of runs to leave out; if nothing is left, no device is leased.
        data: files with the evaluation data: ``source``, ``subsets`` and, for image–text runs,
            optionally ``boxes`` and ``benchmark`` (CheXpert 8×200).

    Raises:
        UserError: if a run to encode was imported without weights, or trained before the VERSION of
            the subsets was raised.
    """
    torch.set_num_threads(threads)
    run_store = RunStore(store)
    remaining = [
        run for run in read_manifest(manifest, run_store, count) if run["id"] not in without
    ]
    for run in remaining:
        folder = run_store.folder(run["id"])
        if run["model"] is None:
            raise UserError(
                f"{folder}: this run was imported without the weights that this step needs. Remove"
                f" its folder and {manifest} to train it again."
            )
        record = run_store.record(run["id"])
        run["settings"] = record["settings"]
        if change := versions.raised(record["code"]["versions"], {"subsets": VERSIONS["subsets"]}):
            raise UserError(
                f"{folder}: this run was trained with {change[0]}, so it may have seen today's test"
                f" images. Remove its folder and {manifest} to train it again."
            )
    if not remaining:
        yield iter(())
        return
    settings = remaining[0]["settings"]
    package = importlib.import_module(task_package(settings))
    with leased_device(device) as leased:
        source = read_samples(kind_of(settings), data["source"])
        subsets = read_subsets(data["subsets"])
        vectors = data.get("vectors") or ()
        runs = (_with_data(run, source, subsets, vectors) for run in remaining)
        yield package.encoded(source, runs, data, leased)


def _with_data(
    run: Mapping[str, Any], source: Any, subsets: Mapping[int, Subset], vectors: Sequence[str]
) -> dict[str, Any]:
    """Return a listed run with its subset and the vectors of its frozen towers."""
    frozen = read_frozen(run["vectors"], source, vectors)
    subset = with_vectors_apart(subsets[run["seed"]], source, run["settings"], frozen.inputs)
    return {**run, "subset": subset, "frozen": frozen}


@contextlib.contextmanager
def first_run(**block: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the first run of a manifest and the columns that identify its artefacts; see
    :func:`encoded_runs` for arguments.
    """
    with encoded_runs(**block, count=1) as encoded:
        ((run,),) = encoded
        manifest = records.read_json(block["manifest"], records.Manifest)
        yield (
            run,
            {
                "dataset": manifest["dataset"],
                "objective": manifest["objective"],
                "seed": run.subset.seed,
            },
        )


def evaluate_runs(
    *,
    names: Mapping[str, str],
    settings: Section,
    rows: str | Path,
    curves: str | Path,
    runs: str | Path,
    **block: Any,
) -> None:
    """Evaluate the runs of a manifest with all tasks for their kind of training; imported runs keep
    their rows.

    Args:
        names: columns that label the results; missing ones are taken from the manifest. A run may
            have been trained for another study under other names.
        settings: the study's evaluation settings.
        rows: output parquet file with the measured rows.
        curves: output parquet file with the training curves.
        runs: output JSON file with the records of the runs and the provenance of their evaluation.
        block: further arguments of :func:`encoded_runs`.
    """
    store = RunStore(block["store"])
    manifest = records.read_json(block["manifest"], records.Manifest)
    listed = [run["id"] for run in manifest["runs"]]
    imported = [run for run in listed if store.state(run) == "imported"]
    for run in imported:
        evaluation(store, run, settings)  # raises an error before others are measured
    of_runs = store.record(listed[0])["settings"]
    with encoded_runs(threads=settings["threads"], without=imported, **block) as encoded:
        measured = [
            row for ready in encoded for row in rows_of(task_package(of_runs), ready, settings)
        ]
    code = versions.evaluation_versions(kind_of(of_runs), settings)
    evaluated = provenance.environment(code) | {"settings": settings}
    for run in listed:
        if run not in imported:
            of_run = (row for row in measured if row["run"] == run)
            keep_evaluation(store, run, evaluated, of_run)
    names = {**listed_for(manifest), **names}
    gather_block(store, manifest, names, settings).write(rows, curves, runs)


def task_package(settings: Section) -> str:
    """Return the dotted name of the package with the evaluation tasks for runs with the given
    settings.
    """
    return f"trueneg.evaluation.{kind_of(settings).SAMPLES}"


def rows_of(package: str, runs: Sequence[Any], settings: Section) -> Iterator[dict[str, Any]]:
    """Yield the rows measured on encoded runs by every task of a package, skipping tasks whose
    settings section is None.
    """
    for _, name, _ in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if settings.get(name, {}) is not None:
            task = importlib.import_module(f"{package}.{name}")
            for run, split, measured, value in task.measure(runs, settings):
                yield {
                    "seed": run.subset.seed,
                    "run": run.id,
                    "split": split,
                    **measured._asdict(),
                    "value": float(value),
                }

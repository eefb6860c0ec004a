"""What the training of evaluated runs left: their curves and their records, under the names of the study that asks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.io.files import written_whole
from trueneg.store import provenance, records
from trueneg.store.run_store import RunStore


def gather_training(
    listed: Sequence[Mapping[str, Any]],
    store: RunStore,
    manifest: str | Path,
    names: Mapping[str, str],
    curves: str | Path,
    runs: str | Path,
) -> None:
    """Write the training curves and the records of runs, each with what has just evaluated it.

    A run may have been trained for another study, under other names: here it goes by this study's.

    Args:
        listed: the manifest's runs.
        store: that holds them.
        manifest: JSON file with study, dataset and objective.
        names: what rows are named by (:data:`trueneg.store.rows.NAMES`).
        curves: parquet file to write: the curves, with these names, seed and run.
        runs: JSON file to write: the records.
    """
    trained, commit = [], provenance.commit()
    for run in listed:
        curve = records.read_rows(store.folder(run["id"]) / RunStore.CURVES, remedy="Remove its folder to have the run trained.")
        labels = {**names, "seed": run["seed"], "run": run["id"]}
        trained.append(curve.assign(**labels)[[*labels, *curve.columns]])
    with written_whole(curves) as path:
        pd.concat(trained).to_parquet(path, index=False)
    made = [{**store.record(run["id"]), **manifest_names(manifest)} for run in listed]
    for record in made:
        record["evaluated"] = {
            "fingerprint": provenance.evaluation_fingerprint(record["settings"]),
            "versions": provenance.versions(),
            "commit": commit,
            "machine": provenance.machine(),
        }
    with written_whole(runs) as path:
        path.write_text(json.dumps(made, indent=2) + "\n")


def manifest_names(manifest: str | Path) -> dict[str, str]:
    """Study, dataset and objective of a manifest's runs."""
    content = records.read_json(manifest, records.MANIFEST)
    return {key: content[key] for key in ("study", "dataset", "objective")}


def first_run_names(manifest: str | Path, seed: int) -> dict[str, Any]:
    """What artefacts of a manifest's first run are named by."""
    names = manifest_names(manifest)
    return {"dataset": names["dataset"], "objective": names["objective"], "seed": seed}

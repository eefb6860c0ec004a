"""Training curves and records of evaluated runs, labelled with the names of the evaluating study."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.io.files import write_tables, write_text
from trueneg.store import provenance, records
from trueneg.store.run_store import RunStore


def gather_training(
    manifest: str | Path, store: RunStore, names: Mapping[str, str], curves: str | Path, runs: str | Path
) -> None:
    """Write training `curves` and records (`runs`) of a manifest's runs, with the provenance of their evaluation.

    A run may have been trained for another study under other names; here it is labelled with this study's `names`.
    """
    trained, made = [], []
    for run in records.read_json(manifest, records.MANIFEST)["runs"]:
        curve = records.read_rows(store.folder(run["id"]) / RunStore.CURVES, remedy="Remove its folder to have the run trained.")
        trained.append(curve.assign(**names, seed=run["seed"], run=run["id"]))
        record = store.record(run["id"])
        evaluated = provenance.environment(provenance.evaluation_fingerprint(record["settings"]))
        made.append({**record, **manifest_names(manifest), "evaluated": evaluated})
    write_tables({curves: pd.concat(trained)})
    write_text(runs, json.dumps(made, indent=2) + "\n")


def manifest_names(manifest: str | Path) -> dict[str, str]:
    """Return the study, dataset and objective of a manifest's runs."""
    content = records.read_json(manifest, records.MANIFEST)
    return {key: content[key] for key in ("study", "dataset", "objective")}


def first_run_names(manifest: str | Path, seed: int) -> dict[str, Any]:
    """Return the columns that identify the artefacts of a manifest's first run."""
    names = manifest_names(manifest)
    return {"dataset": names["dataset"], "objective": names["objective"], "seed": seed}

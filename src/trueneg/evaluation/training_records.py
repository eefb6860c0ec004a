"""What the training of evaluated runs left: their curves and their records, under the names of the study that asks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.files import written_whole
from trueneg.study.store import RunStore


def gather_training(listed: Sequence[Mapping[str, Any]], store: RunStore, manifest: str | Path, curves: Path, runs: Path) -> None:
    """Write the training curves and the records of runs.

    A run may have been trained for another study, under other names: here it goes by this study's.

    Args:
        listed: the manifest's runs.
        store: that holds them.
        manifest: JSON file with study, dataset and objective.
        curves: parquet file to write: the curves, with study, dataset, objective and seed.
        runs: JSON file to write: the records.
    """
    names = manifest_names(manifest)
    trained = []
    for run in listed:
        curve = pd.read_parquet(store.folder(run["id"]) / RunStore.CURVES)
        labels = {**names, "seed": run["seed"]}
        trained.append(curve.assign(**labels)[[*labels, *curve.columns]])
    with written_whole(curves) as path:
        pd.concat(trained).to_parquet(path, index=False)
    records = [{**store.record(run["id"]), **names} for run in listed]
    with written_whole(runs) as path:
        path.write_text(json.dumps(records, indent=2) + "\n")


def manifest_names(manifest: str | Path) -> dict[str, str]:
    """Study, dataset and objective of a manifest's runs."""
    content = json.loads(Path(manifest).read_text())
    return {key: content[key] for key in ("study", "dataset", "objective")}

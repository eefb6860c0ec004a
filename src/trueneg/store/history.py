"""The table of all runs."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.stats.measurement import Measurement
from trueneg.store import provenance, records
from trueneg.store.rows import load_rows
from trueneg.store.run_store import RunStore
from trueneg.store.user_files import DataChanges


def run_table(results: Path, studies: Collection[str] | None = None) -> pd.DataFrame:
    """List all runs of the store, one row each: id, state, what was trained, primary metrics by study, and provenance.

    A run is finished, ``stale`` (trained with a different version of the code), ``stale rows`` (evaluated with a different
    version), owned by the process that trains it, or begun. Unfinished runs show the epoch reached and the seconds
    spent, as last recorded. Finished runs, including stale ones, are marked if their data changed since
    (:mod:`trueneg.store.user_files`).

    Args:
        results: the results folder.
        studies: names of the studies to show primary metrics for; None: all.
    """
    if studies is None:
        studies = sorted(path.parents[1].name for path in results.glob("*/artefacts/comparison.json"))
    store, data, metrics = RunStore(results / "runs"), DataChanges(results), _Metrics(results, studies)
    rows = []
    for folder in sorted(store.path.glob("*/")):
        if store.state(folder.name) == "finished":
            rows.append(_finished(store.record(folder.name, records.RUN), data, metrics))
        elif (folder / RunStore.LOCK).exists():
            rows.append(_unfinished(store, folder.name))
    if not rows:
        return pd.DataFrame(columns=["run", "state"])
    table = pd.DataFrame(rows).dropna(axis="columns", how="all")
    counts = [name for name in ("seed", "images", "epochs", "updates") if name in table]
    return table.astype(dict.fromkeys(counts, "Int64"))  # nullable, because unfinished runs lack them


class _Metrics:
    """Values of each study's primary metric on the test split by run id, and the ids of runs with stale rows."""

    def __init__(self, results: Path, studies: Collection[str]):
        self.values: dict[str, dict[str, float]] = {}
        self.stale: set[str] = set()
        for name in studies:
            folder = results / name / "artefacts"
            primary = Measurement.of(records.read_json(folder / "comparison.json", records.COMPARISON)["primary"])
            rows = load_rows(folder / "rows.parquet")
            rows = primary.rows_of(rows[rows["split"] == "test"])
            for run, value in zip(rows["run"], rows["value"], strict=True):
                self.values.setdefault(run, {})[f"{name}: {primary.task} {primary.metric}"] = round(value, 4)
            made = records.read_json(folder / "runs.json", [records.RUN])
            self.stale |= {record["id"] for record in made if provenance.evaluated_by_other_code(record)}


def _finished(record: dict[str, Any], data: DataChanges, metrics: _Metrics) -> dict[str, Any]:
    code = provenance.code_state(record)
    if code == "finished" and record["id"] in metrics.stale:
        code = "stale rows"
    return {
        "run": record["id"],
        "state": data.state(record, code),
        "epoch": None,
        "source": record["source"]["name"],
        **{key: record[key] for key in ("dataset", "objective", "seed", "images")},
        **{key: record["settings"]["training"][key] for key in ("epochs", "updates")},
        "encoder": record["settings"]["encoder"]["name"],
        **metrics.values.get(record["id"], {}),
        "seconds": round(record["seconds"], 1),
        "device": record["device"],
        "code": record["fingerprint"],
        "commit": record["commit"][:12],
        "finished": record["finished"],
    }


def _unfinished(store: RunStore, identifier: str) -> dict[str, Any]:
    owner, progress = store.owner(identifier), store.progress(identifier)
    row: dict[str, Any] = {"run": identifier, "state": f"owned by {owner}" if owner else "begun"}
    if progress:
        row["epoch"] = f"{progress['epoch']}/{progress['epochs'] or '?'}"
        row |= {key: progress.get(key) for key in ("dataset", "objective", "seed")}
        row["seconds"] = round(sum(attempt["seconds"] for attempt in progress["spent"]), 1)
    return row

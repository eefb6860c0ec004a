"""What has run: the table of all runs."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.stats.measurement import Measurement
from trueneg.store import provenance, records
from trueneg.store.rows import load_rows
from trueneg.store.run_store import RunStore
from trueneg.store.user_files import DataChanges


def studies_of(results: Path) -> list[str]:
    """Names of the image studies whose comparisons lie under a results folder."""
    return sorted(path.parents[1].name for path in results.glob("*/artefacts/comparison.json"))


def run_table(results: Path, studies: Collection[str] | None = None) -> pd.DataFrame:
    """One row a run of the store: id, state, what it trained, its primary metrics by study, and what made it.

    A run is finished, ``stale`` (trained with other code than today's), ``stale rows`` (evaluated with other code), owned by a
    process that trains it, or begun: with the epoch that it reached and the seconds spent so far, both as of its last note.
    Finished runs, stale ones too, are marked where the data changed since (:mod:`trueneg.store.user_files`).

    Args:
        results: the results folder.
        studies: names of those whose primary metrics are wanted; all if None.
    """
    store = RunStore(results / "runs")
    metrics, evaluated = _evaluated(results, studies_of(results) if studies is None else studies)
    data = DataChanges(results)
    rows = []
    for folder in sorted(store.path.glob("*/")):
        identifier = folder.name
        if store.state(identifier) != "finished":
            if (folder / RunStore.LOCK).exists():
                rows.append(_unfinished(store, identifier))
            continue
        record = store.record(identifier, records.RUN)
        training = record["settings"]["training"]
        rows.append(
            {
                "run": identifier,
                "state": data.state(record, provenance.code_state(record | evaluated.get(identifier, {}))),
                "epoch": None,
                "source": record["source"]["name"],
                "dataset": record["dataset"],
                "objective": record["objective"],
                "seed": record["seed"],
                "images": record["images"],
                "epochs": training["epochs"],
                "updates": training["updates"],
                "encoder": record["settings"]["encoder"]["name"],
                **metrics.get(identifier, {}),
                "seconds": round(record["seconds"], 1),
                "device": record["device"],
                "code": record["fingerprint"],
                "commit": record["commit"][:12],
                "finished": record["finished"],
            }
        )
    if not rows:
        return pd.DataFrame(columns=["run", "state"])
    table = pd.DataFrame(rows).dropna(axis="columns", how="all")
    counts = [name for name in ("seed", "images", "epochs", "updates") if name in table]
    return table.astype(dict.fromkeys(counts, "Int64"))  # which unfinished runs have none of


def _unfinished(store: RunStore, identifier: str) -> dict[str, Any]:
    owner = store.owner(identifier)
    row = {"run": identifier, "state": f"owned by {owner}" if owner else "begun"}
    progress = store.progress(identifier)
    if progress:
        row |= {"epoch": f"{progress['epoch']}/{progress['epochs'] or '?'}"}
        row |= {key: progress.get(key) for key in ("dataset", "objective", "seed")}
        row |= {"seconds": round(sum(attempt["seconds"] for attempt in progress.get("spent", [])), 1)}
    return row


def _evaluated(results: Path, studies: Iterable[str]) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, Any]]]:
    """By run id: the value of each study's primary metric on the test split; and what evaluated it, if stale then that."""
    found: dict[str, dict[str, float]] = {}
    evaluated: dict[str, dict[str, Any]] = {}
    for name in studies:
        folder = results / name / "artefacts"
        comparison = records.read_json(folder / "comparison.json", records.COMPARISON)
        measured, rows = Measurement.of(comparison["primary"]), load_rows(folder / "rows.parquet")
        values = measured.rows_of(rows[rows["split"] == "test"]).set_index("run")["value"].to_dict()
        for record in records.read_json(folder / "runs.json", [records.RUN]):
            value = values.get(record["id"])
            if value is not None:
                found.setdefault(record["id"], {})[f"{name}: {measured.task} {measured.metric}"] = round(value, 4)
            if "evaluated" in record and (record["id"] not in evaluated or provenance.evaluated_by_other_code(record)):
                evaluated[record["id"]] = {"evaluated": record["evaluated"]}
    return found, evaluated

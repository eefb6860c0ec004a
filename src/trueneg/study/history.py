"""What has run: the table of all runs, and the way back from a result to the runs that made it."""

import json
import time
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from trueneg.errors import UserError
from trueneg.study import provenance
from trueneg.study.store import RunStore


def studies_of(results: Path) -> list[str]:
    """Names of the image studies whose comparisons lie under a results folder."""
    return sorted(path.parents[1].name for path in results.glob("*/artefacts/comparison.json"))


def run_table(results: Path) -> pd.DataFrame:
    """One row a run of the store: id, state, what it trained, its primary metrics by study, and what made it.

    A run is finished, stale (finished, with other training code than today's), owned by a process that trains it, or begun: with
    the epoch that it reached and the seconds spent so far, both as of its last note.

    Args:
        results: the results folder.
    """
    store = RunStore(results / "runs")
    metrics = _primary_metrics(results)
    rows = []
    for folder in sorted(store.path.glob("*/")):
        identifier = folder.name
        if store.state(identifier) != "finished":
            if (folder / RunStore.LOCK).exists():
                rows.append(_unfinished(store, identifier))
            continue
        record = store.record(identifier)
        training = record["settings"]["training"]
        rows.append(
            {
                "run": identifier,
                "state": "stale" if provenance.is_stale(record) else "finished",
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
        row |= {"epoch": f"{progress['epoch']}/{progress['epochs']}"}
        row |= {key: progress[key] for key in ("dataset", "objective", "seed")}
        row |= {"seconds": round(sum(progress["attempts"]), 1)}
    return row


def _primary_metrics(results: Path) -> dict[str, dict[str, float]]:
    """Value of each study's primary metric on the test split, by run id."""
    found: dict[str, dict[str, float]] = {}
    for name in studies_of(results):
        folder = results / name / "artefacts"
        primary = yaml.safe_load((folder / "study.yaml").read_text())["primary"]
        rows = pd.read_parquet(folder / "rows.parquet")
        chosen = rows[
            (rows["split"] == "test")
            & (rows["task"] == primary["task"])
            & (rows["setting"] == primary["setting"])
            & (rows["metric"] == primary["metric"])
        ]
        values = chosen.set_index(["dataset", "objective", "seed"])["value"].to_dict()
        for record in json.loads((folder / "runs.json").read_text()):
            value = values.get((record["dataset"], record["objective"], record["seed"]))
            if value is not None:
                found.setdefault(record["id"], {})[f"{name}: {primary['task']} {primary['metric']}"] = round(value, 4)
    return found


def origin_of(result: str, results: Path) -> dict[str, Any]:
    """What made a result.

    Args:
        result: a run's id, or a file under the results folder (rows, an artefact, a figure, a table, a manifest).
        results: the results folder.

    Returns:
        The study's settings and the records of the runs behind the file, or one run's record.

    Raises:
        UserError: if there is no such result.
    """
    store = RunStore(results / "runs")
    if store.state(result) == "finished":
        return _marked(store.record(result))
    path = Path(result)
    if not path.exists():
        raise UserError(f"{result}: is neither a finished run's id nor a file; `trueneg runs` lists the runs.")
    try:
        parts = path.resolve().relative_to(results.resolve()).parts
    except ValueError as error:
        raise UserError(f"{result}: lies outside {results}; name a file under it, or give its folder by --results.") from error
    if parts[0] == "runs" and len(parts) > 1:
        return _marked(store.record(parts[1]))
    folder = results / parts[0] / "artefacts"
    settings = yaml.safe_load((folder / "study.yaml").read_text()) if (folder / "study.yaml").is_file() else {}
    if settings.get("kind") in ("theory", "likelihood"):
        return {"result": str(path), "study": parts[0], "settings": settings, "made": _made(path)}
    if not (folder / "runs.json").is_file():
        raise UserError(f"{result}: its study {parts[0]!r} has no {folder / 'runs.json'}; let the study finish first.")
    records = json.loads((folder / "runs.json").read_text())
    # Rows, curves, manifests and embeddings are named by data set and objective; figures and tables need all runs.
    stages = parts[1:] if parts[1:2] != ("artefacts",) else parts[2:]
    if len(stages) >= 3:
        dataset, objective = stages[1], stages[2].removesuffix(".parquet")
        records = [run for run in records if run["dataset"] == dataset and run["objective"] == objective]
    return {
        "result": str(path),
        "study": parts[0],
        "settings": settings,
        "comparison": json.loads((folder / "comparison.json").read_text()),
        "runs": [_marked(run) for run in records],
    }


def _made(path: Path) -> str:
    """When a file was written, local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(path.stat().st_mtime))


def _marked(record: dict[str, Any]) -> dict[str, Any]:
    return {"state": "stale: made with other code than today's" if provenance.is_stale(record) else "finished"} | record

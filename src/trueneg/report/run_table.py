"""The table of all runs."""

import textwrap
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from trueneg.data.user_files import DataChanges
from trueneg.io.seals import require_intact
from trueneg.stats.measurement import Measurement
from trueneg.store import records, versions
from trueneg.store.rows import load_rows
from trueneg.store.run_store import RunStore

ORDER = ("study", "source", "dataset", "objective", "seed")
# columns of every line, even if all runs have the same value
LISTED = ["run", "state", "epoch", "objective", "seed"]


def run_table(results: Path, studies: Collection[str] = ()) -> DataFrame:
    """List the runs of the store, one row per run: id, state, settings, primary metrics by study,
    and provenance.

    The state is ``finished``, ``stale`` (a VERSION was raised after the training), ``stale rows``
    (one was raised after the evaluation), ``owned by`` the training process, or ``interrupted``.
    Unfinished runs show their last recorded epoch and training time. Runs without weights are
    marked as imported. Finished runs, including stale ones, are marked if their data changed after
    training (:mod:`trueneg.data.user_files`).

    Args:
        results: the results folder.
        studies: names of the studies whose runs to list; empty: all runs, including unfinished
            ones.
    """
    compared = sorted(path.parents[1].name for path in results.glob("*/artefacts/comparison.json"))
    metrics, stale_rows = _evaluated(
        results, [name for name in compared if name in (studies or compared)]
    )
    users = _studies_of_runs(results)
    store = RunStore(results / "runs")
    data = DataChanges(results)
    rows = []
    for folder in sorted(store.path.glob("*/")):
        run = folder.name
        if store.state(run) in RunStore.TRAINED:
            record = store.record(run, records.RunRecord)
            names = sorted(users.get(run, {record["study"]}))
            if studies and not {*names} & {*studies}:
                continue
            code = "finished"
            if versions.stale_training(record):
                code = "stale"
            elif run in stale_rows:
                code = "stale rows"
            state = data.state(record, store.marked(run, code))
            values = {name: by_run.get(run) for name, by_run in metrics.items()}
            rows.append(_finished(record, ", ".join(names), state, values))
        elif not studies and (folder / RunStore.LOCK).exists():
            rows.append(_unfinished(store, run))
    if not rows:
        return DataFrame(columns=["run", "state"])
    table = DataFrame(rows).dropna(axis="columns", how="all")
    counts = [name for name in ("seed", "samples", "epochs", "updates") if name in table]
    # nullable, because unfinished runs lack them
    table = table.astype(dict.fromkeys(counts, "Int64"))
    return table.sort_values([name for name in ORDER if name in table], ignore_index=True)


def as_text(table: DataFrame, width: int) -> str:
    """Lay out a run table for the terminal: per study, the values that its runs share, then one
    line per run.

    Columns that do not fit are left out from the right; the last line names them.

    Args:
        table: run table, in any order of rows.
        width: maximum number of characters per line.
    """
    left_out: dict[str, None] = {}
    parts = []
    table = table.assign(study=table.get("study")).fillna({"study": "unfinished runs"})
    for study, rows in table.groupby("study", sort=False):
        rows = rows.drop(columns="study").dropna(axis="columns", how="all")
        rows.columns = [str(name).removeprefix(f"{study}: ") for name in rows]
        shared = [
            name for name in rows if name not in LISTED and rows[name].nunique(dropna=False) == 1
        ]
        values = rows[shared].iloc[0].items()
        heading = "; ".join([str(study), *(f"{name}: {value}" for name, value in values)])
        rows = rows.drop(columns=shared)
        rows = rows[sorted(rows, key=lambda name: name not in LISTED)]
        text = rows.to_string(index=False, na_rep="")
        while len(text.split("\n", 1)[0]) > width and len(rows.columns) > 1:
            left_out[rows.columns[-1]] = None
            rows = rows.iloc[:, :-1]
            text = rows.to_string(index=False, na_rep="")
        parts.append(f"{textwrap.fill(heading, width, subsequent_indent='  ')}\n{text}")
    if left_out:
        parts.append(
            textwrap.fill(
                f"Too wide for {width} characters: {', '.join(left_out)}. --csv and --json list"
                " all columns.",
                width,
            )
        )
    return "\n\n".join(parts)


def _studies_of_runs(results: Path) -> dict[str, set[str]]:
    """Return the studies that use each run, by its id; a run's record names only the study that
    trained it.
    """
    studies: defaultdict[str, set[str]] = defaultdict(set)
    for path in results.glob("*/manifests/*/*/*.json"):
        for run in records.read_json(path, records.Manifest)["runs"]:
            studies[run["id"]].add(path.relative_to(results).parts[0])
    return studies


def _evaluated(
    results: Path, studies: Collection[str]
) -> tuple[dict[str, dict[str, float]], set[str]]:
    """Return metrics of each study by run id, and the ids of the runs with stale rows.

    The metrics are the primary one on the test split, and for the rows of ``candidates.parquet``,
    theirs on the validation split. Candidates of a tuned study have no test values.
    """
    metrics = {}
    stale = set()
    for name in studies:
        folder = results / name / "artefacts"
        tables = ("rows.parquet", "candidates.parquet", "tuning.parquet")
        files = ("comparison.json", "runs.json", *tables)
        require_intact(results, [folder / file for file in files])
        comparison = records.read_json(folder / "comparison.json", records.ComparisonRecord)
        rows = load_rows(folder / "rows.parquet")
        primary = Measurement.of(comparison["primary"])
        test = rows.query("split == 'test'")
        metrics[f"{name}: test {primary.task} {primary.metric}"] = _by_run(primary.rows_of(test))
        selecting = Measurement.of(comparison["selected by"])
        pilots = [load_rows(path) for path in folder.glob("tuning.parquet")]
        validation = pd.concat([rows.query("split == 'validation'"), *pilots])
        candidates = " ".join(records.read_rows(folder / "candidates.parquet")["runs"]).split()
        validation = selecting.rows_of(validation[validation["run"].isin(candidates)])
        metrics[f"{name}: validation {selecting.task} {selecting.metric}"] = _by_run(validation)
        made = records.read_json(folder / "runs.json", list[records.RunRecord])
        stale |= {record["id"] for record in made if versions.stale_rows(record)}
    return metrics, stale


def _by_run(rows: DataFrame) -> dict[str, float]:
    return {run: round(value, 4) for run, value in zip(rows["run"], rows["value"], strict=True)}


def _finished(
    record: dict[str, Any], studies: str, state: str, metrics: Mapping[str, float | None]
) -> dict[str, Any]:
    settings = record["settings"]
    return {
        "run": record["id"],
        "state": state,
        "epoch": None,
        "study": studies,
        "source": record["source"]["name"],
        **{key: record[key] for key in ("dataset", "objective", "seed")},
        "samples": record["images"],
        **{key: settings["training"][key] for key in ("epochs", "updates")},
        "encoder": (settings.get("encoder") or settings["text_encoder"])["name"],
        **metrics,
        "seconds": round(record["seconds"], 1),
        "device": record["device"],
        "commit": record["commit"][:12],
        "finished": record["finished"],
    }


def _unfinished(store: RunStore, identifier: str) -> dict[str, Any]:
    owner = store.owner(identifier)
    progress = store.progress(identifier)
    row: dict[str, Any] = {
        "run": identifier,
        "state": f"owned by {owner}" if owner else "interrupted",
    }
    if progress:
        row["epoch"] = f"{progress['epoch']}/{progress['epochs'] or '?'}"
        row |= {key: progress.get(key) for key in ("dataset", "objective", "seed")}
        row["seconds"] = round(sum(attempt["seconds"] for attempt in progress["spent"]), 1)
    return row

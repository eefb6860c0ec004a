"""The table of all runs."""

import textwrap
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.data.user_files import DataChanges
from trueneg.io.seals import require_intact
from trueneg.stats.measurement import Measurement
from trueneg.store import records, versions
from trueneg.store.rows import load_rows, reported
from trueneg.store.run_store import RunStore

ORDER = ("study", "source", "dataset", "objective", "seed")
# columns of every line, even if all runs have the same value
LISTED = ["run", "state", "epoch", "objective", "seed"]


def run_table(results: Path, studies: Collection[str] = ()) -> pd.DataFrame:
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
    store, data, rows = RunStore(results / "runs"), DataChanges(results), []
    metrics, stale_rows = _evaluated(
        results, [name for name in compared if name in (studies or compared)]
    )
    users = _studies_of_runs(results)
    for folder in sorted(store.path.glob("*/")):
        if store.state(folder.name) in RunStore.TRAINED:
            record = store.record(folder.name, records.RunRecord)
            names = sorted(users.get(folder.name, {record["study"]}))
            if studies and not {*names} & {*studies}:
                continue
            code = "stale rows" if folder.name in stale_rows else "finished"
            code = "stale" if versions.stale_training(record) else code
            rows.append(
                _finished(
                    record, names, data.state(record, store.marked(folder.name, code)), metrics
                )
            )
        elif not studies and (folder / RunStore.LOCK).exists():
            rows.append(_unfinished(store, folder.name))
    if not rows:
        return pd.DataFrame(columns=["run", "state"])
    table = pd.DataFrame(rows).dropna(axis="columns", how="all")
    counts = [name for name in ("seed", "samples", "epochs", "updates") if name in table]
    # nullable, because unfinished runs lack them
    table = table.astype(dict.fromkeys(counts, "Int64"))
    return table.sort_values([name for name in ORDER if name in table], ignore_index=True)


def as_text(table: pd.DataFrame, width: int) -> str:
    """Lay out a run table for the terminal: per study, the values that its runs share, then one
    line per run.

    Columns that do not fit are left out from the right; the last line names them.

    Args:
        table: run table, in any order of rows.
        width: maximum number of characters per line.
    """
    left_out: dict[str, None] = {}
    parts = []
    studies = table.get("study", pd.Series(index=table.index, dtype=object)).fillna(
        "unfinished runs"
    )
    for study, rows in table.drop(columns="study", errors="ignore").groupby(studies, sort=False):
        rows = rows.dropna(axis="columns", how="all")
        rows.columns = [str(name).removeprefix(f"{study}: ") for name in rows]
        shared = [
            name for name in rows if name not in LISTED and rows[name].nunique(dropna=False) == 1
        ]
        heading = "; ".join(
            [str(study), *(f"{name}: {value}" for name, value in rows[shared].iloc[0].items())]
        )
        rows = rows.drop(columns=shared)
        rows = rows[sorted(rows, key=lambda name: name not in LISTED)]
        while (
            len((text := rows.to_string(index=False, na_rep="")).split("\n", 1)[0]) > width
            and len(rows.columns) > 1
        ):
            left_out[rows.columns[-1]] = None
            rows = rows.iloc[:, :-1]
        parts.append(f"{textwrap.fill(heading, width, subsequent_indent='  ')}\n{text}")
    if left_out:
        note = (
            f"Too wide for {width} characters: {', '.join(left_out)}. --csv and --json list all"
            " columns."
        )
        parts.append(textwrap.fill(note, width))
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

    The metrics are the primary one on the test split, and for candidates, the one on the validation
    split that selected among them. Candidates that were not selected have no test values.
    """
    metrics, stale = {}, set()
    for name in studies:
        folder = results / name / "artefacts"
        read = (
            "comparison.json",
            "rows.parquet",
            "candidates.parquet",
            "tuning.parquet",
            "runs.json",
        )
        require_intact(results, [folder / file for file in read])
        comparison = records.read_json(folder / "comparison.json", records.ComparisonRecord)
        primary, rows = Measurement.of(comparison["primary"]), load_rows(folder / "rows.parquet")
        test = primary.rows_of(reported(rows[rows["split"] == "test"], comparison["selection"]))
        metrics[f"{name}: test {primary.task} {primary.metric}"] = _by_run(test)
        candidates, selecting = (
            records.read_rows(folder / "candidates.parquet"),
            Measurement.of(comparison["selected by"]),
        )
        pilots = [load_rows(path) for path in folder.glob("tuning.parquet")]
        validation = pd.concat([rows[rows["split"] == "validation"], *pilots])
        validation = validation[validation["run"].isin(" ".join(candidates["runs"]).split())]
        metrics[f"{name}: validation {selecting.task} {selecting.metric}"] = _by_run(
            selecting.rows_of(validation)
        )
        made = records.read_json(folder / "runs.json", list[records.RunRecord])
        stale |= {record["id"] for record in made if versions.stale_rows(record)}
    return metrics, stale


def _by_run(rows: pd.DataFrame) -> dict[str, float]:
    return {run: round(value, 4) for run, value in zip(rows["run"], rows["value"], strict=True)}


def _finished(
    record: dict[str, Any], studies: list[str], state: str, metrics: dict[str, dict[str, float]]
) -> dict[str, Any]:
    return {
        "run": record["id"],
        "state": state,
        "epoch": None,
        "study": ", ".join(studies),
        "source": record["source"]["name"],
        **{key: record[key] for key in ("dataset", "objective", "seed")},
        "samples": record["images"],
        **{key: record["settings"]["training"][key] for key in ("epochs", "updates")},
        "encoder": (record["settings"].get("encoder") or record["settings"]["text_encoder"])[
            "name"
        ],
        **{name: values.get(record["id"]) for name, values in metrics.items()},
        "seconds": round(record["seconds"], 1),
        "device": record["device"],
        "commit": record["commit"][:12],
        "finished": record["finished"],
    }


def _unfinished(store: RunStore, identifier: str) -> dict[str, Any]:
    owner, progress = store.owner(identifier), store.progress(identifier)
    row: dict[str, Any] = {
        "run": identifier,
        "state": f"owned by {owner}" if owner else "interrupted",
    }
    if progress:
        row["epoch"] = f"{progress['epoch']}/{progress['epochs'] or '?'}"
        row |= {key: progress.get(key) for key in ("dataset", "objective", "seed")}
        row["seconds"] = round(sum(attempt["seconds"] for attempt in progress["spent"]), 1)
    return row

"""The runs of a study as the page holds them: each once, with settings and environments that many share said once."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.report.labels import with_unit
from trueneg.report.metrics import metric_name, scale, task_name, unit
from trueneg.report.page.artefacts import Artefacts
from trueneg.stats.measurement import Measurement
from trueneg.store import history, provenance
from trueneg.store.rows import load_rows

COLUMNS = (
    *("run", "dataset", "objective", "seed", "state", "value", "seconds", "gpu_seconds", "images", "epochs", "finished", "data"),
    *("settings", "environment"),
)


class _Pool:
    """Distinct values in the order in which they came."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        place = self._places.setdefault(repr(value), len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place


def runs_of(artefacts: Artefacts) -> dict[str, Any]:
    """The runs of a study.

    Args:
        artefacts: of the study.

    Returns:
        ``columns`` and ``rows`` of the list; ``settings`` and ``environments``, of which a row names one each by its place;
        ``measure``: what ``value`` is, the study's primary measurement on the test split as it is shown.
    """
    settings, environments = _Pool(), _Pool()
    primary = artefacts.comparison.get("primary", {})
    values = _primary_values(artefacts, primary)
    rows = []
    for record in artefacts.records:
        training = record["settings"]["training"]
        rows.append(
            [
                record["id"],
                *(record[key] for key in ("dataset", "objective", "seed")),
                artefacts.data_changes.state(record, provenance.code_state(record)),
                values.get(record["id"]),
                round(record["seconds"], 1),
                _rounded(record.get("gpu_seconds")),
                record["images"],
                training["epochs"],
                record["finished"],
                record["source"]["checksum"],
                settings.place(record["settings"]),
                environments.place(_environment(record)),
            ]
        )
    measure = ""
    if primary:
        measured = Measurement.of(primary)
        measure = with_unit(f"{task_name(measured.task)}, {metric_name(measured)}", unit(measured.metric))
    return {
        "columns": list(COLUMNS),
        "rows": rows,
        "settings": settings.values,
        "environments": environments.values,
        "measure": measure,
    }


def other_runs(results: Path, known: Iterable[str]) -> list[dict[str, Any]]:
    """Runs of the store that no study on the page holds: those that are not finished, and those of studies that are not.

    Args:
        results: the results folder.
        known: ids of the runs that studies hold.
    """
    if not (results / "runs").is_dir():
        return []
    table, known = history.run_table(results, studies=()), set(known)
    wanted = ("run", "state", "epoch", "dataset", "objective", "seed", "seconds")
    return [
        {key: row[key] for key in wanted if key in row and not pd.isna(row[key])}
        for row in table.astype(object).to_dict("records")
        if row["run"] not in known
    ]


def _environment(record: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("commit", "fingerprint", "device", "threads", "machine", "versions")
    return {key: record[key] for key in keys if key in record} | {"source": record["source"]["name"]}


def _primary_values(artefacts: Artefacts, primary: Mapping[str, Any]) -> dict[str, float]:
    """What each run reached in the primary measurement, as it is shown."""
    path = artefacts.folder / "rows.parquet"
    if not primary or not path.is_file():
        return {}
    rows = load_rows(path)
    rows = Measurement.of(primary).rows_of(rows[rows["split"] == primary["split"]])
    shown = rows["value"] * scale(primary["metric"])
    return {run: float(f"{value:.5g}") for run, value in zip(rows["run"], shown, strict=True)}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)

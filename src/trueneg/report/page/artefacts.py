"""What lies beside the page of a study: settings, comparison and the runs with their states."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trueneg.report.metrics import written
from trueneg.stats.measurement import Measurement
from trueneg.store import provenance, records
from trueneg.store.rows import load_rows
from trueneg.store.user_files import DataChanges

# Sources of data whose text and images must not be shown, whatever their files say.
RESTRICTED_SOURCES = ("mimic_cxr", "ms_cxr", "chexpert", "chexpert_8x200")


class Artefacts:
    """What ``results/<study>/artefacts`` holds; a study that lacks a file has nothing there.

    Attributes:
        folder: the artefacts' folder.
        settings: the resolved study.
        comparison: gate, primary contrast and selection.
        runs: the record of each run, with its ``state`` and, as text, its ``value`` of the primary measurement, its settings by
            dotted name (``configuration``) and what ``made`` it.
        data_changes: which of the runs were trained on data that have changed since.
        restricted: whether the settings say that text and images must not be shown; files of examples say it for themselves.
    """

    def __init__(self, folder: Path):
        settings, comparison, runs = (folder / name for name in ("study.yaml", "comparison.json", "runs.json"))
        self.folder = folder
        self.settings = records.read_settings(settings) if settings.is_file() else {}
        self.comparison = records.read_json(comparison, records.COMPARISON) if comparison.is_file() else {}
        self.data_changes = DataChanges(folder.parents[1])
        sources = [self.settings.get("dataset") or {}, self.settings.get("reports") or {}]
        self.restricted = any(part.get("restricted") or part.get("source") in RESTRICTED_SOURCES for part in sources)
        values, read = self._primary_values(), records.read_json(runs, [records.RUN]) if runs.is_file() else []
        self.runs = [self._shown(record) | {"value": values.get(record["id"], "–")} for record in read]

    def _primary_values(self) -> dict[str, str]:
        primary, path = self.comparison.get("primary"), self.folder / "rows.parquet"
        if not primary or not path.is_file():
            return {}
        rows = load_rows(path)
        rows = Measurement.of(primary).rows_of(rows[rows["split"] == primary["split"]])
        return {run: written(value, primary["metric"]) for run, value in zip(rows["run"], rows["value"], strict=True)}

    def _shown(self, record: Mapping[str, Any]) -> dict[str, Any]:
        state = self.data_changes.state(record, provenance.code_state(record))
        return {**record, "state": state, "configuration": dict(flat(record["settings"])), "made": _made(record)}


def _made(record: Mapping[str, Any]) -> dict[str, str]:
    machine, threads = record["machine"], record.get("threads", "–")
    return {
        "Commit": re.sub("^([0-9a-f]{12})[0-9a-f]*", r"\1", record["commit"]),
        "Code": record["fingerprint"],
        "Data": f"{record['source']['name']} {record['source']['checksum'][:16]}",
        "Device": f"{record['device']}, threads: {threads}",
        "Machine": f"{machine['system']}, {machine.get('cores', '–')} cores",
        "Libraries": ", ".join(f"{name} {version}" for name, version in record["versions"].items()),
    }


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names with their values as text."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

"""Where each number comes from: the runs, the files or the printed table behind a cell, each said once."""

import json
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trueneg.io.files import file_checksum
from trueneg.report.formats import Table
from trueneg.report.page.artefacts import Artefacts
from trueneg.store import provenance

MINUS = "− "  # begins the head of a column of differences; stands between the two objectives of a contrast


class Origins:
    """The origins of a study's numbers; a cell holds the place of its own.

    An origin names a data set and objectives, whose runs the page then lists; a printed number's says where it is printed. Where
    a study has no runs, all its numbers come from its files.

    Args:
        artefacts: of the study.
        baseline: the objective that is subtracted in tables of differences.

    Attributes:
        listed: plain values, in the order of their places.
    """

    def __init__(self, artefacts: Artefacts, baseline: str = ""):
        self.listed: list[dict[str, Any]] = []
        self._baseline = baseline
        self._selection = artefacts.selection
        runs = {(record["dataset"], record["objective"]) for record in artefacts.records}
        self._runs = runs
        self._known = bool(artefacts.settings)
        # The longest first: one data set's name may begin another's.
        self._datasets = sorted({dataset for dataset, _ in runs}, key=len, reverse=True)

    def place(self, **origin: Any) -> int:
        """The place of an origin."""
        if origin not in self.listed:
            self.listed.append(origin)
        return self.listed.index(origin)

    def of_runs(self, dataset: str | None, objectives: Iterable[str]) -> int:
        """The runs of some objectives on a data set (None: on all); a swept one stands for its selected variant."""
        labels = [self._selection.get((dataset, name), name) for name in objectives]
        known = [label for label in dict.fromkeys(labels) if dataset is None or (dataset, label) in self._runs]
        return self.place(dataset=dataset, objectives=known)

    def of_study(self) -> int:
        """All runs of the study; where it has none, its files."""
        return self.of_runs(None, []) if self._runs else self.place(files=True)

    def of_table(self, table: Table) -> list[list[list[int | None]]]:
        """For each group, line and cell of a table its origin's place; None where it holds no number, or nothing is known."""
        return [
            [
                [self._of_cell(group.title, name, column, cell.text) for column, cell in self._cells(table, cells)]
                for name, cells in group.lines
            ]
            for group in table.groups
        ]

    @staticmethod
    def _cells(table: Table, cells: Sequence[Any]) -> Iterable[tuple[str, Any]]:
        return zip((name for _, name in table.columns), cells, strict=True)

    def _of_cell(self, title: str, line: str, column: str, text: str) -> int | None:
        if not self._known or not re.search(r"\d", text):
            return None
        if not self._runs:
            return self.place(files=True)
        dataset = self._dataset(title)
        if column.split(" (")[0] == "published":
            return self.place(printed=title.split("; ")[1] if "; " in title else "the table that the study's settings name")
        objectives = line.split(f" {MINUS}")
        if column.startswith(MINUS) and self._baseline:
            objectives.append(self._baseline)
        return self.of_runs(dataset, objectives)

    def _dataset(self, title: str) -> str | None:
        """The data set that a group's title begins with; the only one, where it names none."""
        for dataset in self._datasets:
            if title == dataset or title.startswith((f"{dataset}; ", f"{dataset} (")):
                return dataset
        return self._datasets[0] if len(self._datasets) == 1 else None


def files_of(artefacts: Artefacts) -> dict[str, Any] | None:
    """What a study without runs was made of: its files with their checksums, the code, and the language models that it used.

    Returns:
        None for a study with runs, or one without artefacts; else ``files`` (path, SHA-256, when written), ``code`` (fingerprints
        of the code that made the experiments of a theory study) and ``models`` (records of language models).
    """
    if artefacts.records or not artefacts.settings:
        return None
    results = artefacts.folder.parents[1]
    listed = [
        {
            "path": path.relative_to(results).as_posix(),
            "checksum": file_checksum(path),
            "written": time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(path.stat().st_mtime)),
        }
        for path in sorted(artefacts.folder.rglob("*.parquet"))
    ]
    code = sorted({provenance.recorded_code(path) for path in artefacts.folder.glob("simulation/*.code")})
    return {"files": listed, "code": ", ".join(code), "models": list(_models(artefacts, results))}


def _models(artefacts: Artefacts, results: Path) -> Iterable[dict[str, Any]]:
    """The language models that a likelihood study's manifests name: those that were trained have a record."""
    wanted = ("id", "seed", "fold", "fingerprint", "versions", "commit", "device", "seconds", "gpu_seconds", "finished")
    for manifest in sorted((artefacts.folder.parent / "text").glob("*/language_models/*.json")):
        for model in json.loads(manifest.read_text())["models"]:
            path = results / "language_models" / Path(model["folder"]).name / "run.json"
            record = json.loads(path.read_text()) if path.is_file() else {}
            made = {key: record[key] for key in wanted if record.get(key) is not None}
            yield {"name": manifest.stem, "checksum": model["checksum"], **made}

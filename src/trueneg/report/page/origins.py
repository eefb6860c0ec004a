"""Where each number comes from: the runs, the files or the printed table behind a cell, each said once."""

import json
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trueneg.io.files import file_checksum
from trueneg.report.formats import Cell, Table
from trueneg.report.page.artefacts import Artefacts
from trueneg.store import provenance


class Origins:
    """The origins of a study's numbers; a cell holds the place of its own.

    An origin is ``runs`` (places in the study's list of runs), ``printed`` (where a printed number stands) or ``files`` (a study
    without runs has its numbers from its files).

    Args:
        artefacts: of the study.

    Attributes:
        listed: plain values, in the order of their places.
    """

    def __init__(self, artefacts: Artefacts):
        self.listed: list[dict[str, Any]] = []
        self._runs = {record["id"]: place for place, record in enumerate(artefacts.records)}
        self._known = bool(artefacts.settings)

    def place(self, **origin: Any) -> int:
        """The place of an origin."""
        if origin not in self.listed:
            self.listed.append(origin)
        return self.listed.index(origin)

    def of_runs(self, runs: str = "") -> int:
        """The runs with these ids, separated by spaces; all of the study without any; its files where it has no runs."""
        if not self._runs:
            return self.place(files=True)
        return self.place(runs=self.places(runs) or list(self._runs.values()))

    def places(self, runs: str) -> list[int]:
        """Where the runs with these ids, separated by spaces, stand in the study's list."""
        return sorted({self._runs[one] for one in runs.split() if one in self._runs})

    def of_table(self, table: Table) -> list[list[list[int | None]]]:
        """For each group, line and cell of a table its origin's place; None where it holds no number, or nothing is known."""
        return [[[self._of_cell(cell) for cell in cells] for _, cells in group.lines] for group in table.groups]

    def _of_cell(self, cell: Cell) -> int | None:
        if not self._known or not re.search(r"\d", cell.text):
            return None
        return self.place(printed=cell.printed) if cell.printed and self._runs else self.of_runs(cell.runs)


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

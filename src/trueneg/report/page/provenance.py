"""Provenance of each number: runs, a published table or files. Each source is described once and
referenced by table cells.
"""

import itertools
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.io.files import file_checksum
from trueneg.report.formats import Cell
from trueneg.specs.sections import Section
from trueneg.store.language_models import language_models
from trueneg.store.records import Record

LISTED = 6  # maximum number of distinct values to list; the others are only counted


class Provenance:
    """The provenance of a study's numbers; each table cell holds an index into :meth:`described`.

    A number comes from ``runs`` (ids), from a publication (``printed``; beside it may be a number
    from runs) or, in a study without runs, from ``files``.

    Args:
        runs: records of the study's runs, with the keys that :mod:`trueneg.report.page.study` adds.
        settings: settings of the resolved study; if empty, the provenance is unknown.
        folder: folder with the study's artefacts.
    """

    def __init__(
        self,
        runs: Sequence[Record] = (),
        settings: Section | None = None,
        folder: Path = Path(),
    ):
        self.runs = runs
        self.settings = settings or {}
        self._folder = folder
        self._ids = {run["id"] for run in runs}
        self._indices: dict[tuple[str, Any], int] = {}

    def of_runs(self, ids: Iterable[str] = ()) -> int:
        """Return the index of the runs with these ids; if none match, of all runs; if the study has
        no runs, of its files.
        """
        return (
            self._index("runs", frozenset(ids) & self._ids or frozenset(self._ids))
            if self._ids
            else self._index("files")
        )

    def of_cell(self, cell: Cell) -> int | None:
        """Return the index of a cell's provenance; None if the cell holds no number or the
        provenance is unknown.
        """
        if not self.settings or not re.search(r"\d", cell.text):
            return None
        if cell.runs and self._ids and self._ids.isdisjoint(cell.runs.split()):
            return None  # runs of an earlier first stage
        if cell.printed and self._ids:
            return self._index("printed", (cell.printed, frozenset(cell.runs.split()) & self._ids))
        return self.of_runs(cell.runs.split())

    def described(self) -> list[dict[str, Any]]:
        """Return the page's description of each source, in index order."""
        return [self._described(*key) for key in self._indices]

    def _index(self, kind: str, content: Any = None) -> int:
        return self._indices.setdefault((kind, content), len(self._indices))

    def _described(self, kind: str, content: Any) -> dict[str, Any]:
        if kind == "printed":
            source, ids = content
            return {"printed": source} | (self._described("runs", ids) if ids else {})
        if kind == "files":
            return self._files()
        runs = [run for run in self.runs if run["id"] in content]
        configurations = [run["configuration"] for run in runs]
        keys = dict.fromkeys(itertools.chain.from_iterable(configurations))
        differing = [
            key for key in keys if len({settings.get(key) for settings in configurations}) > 1
        ]
        terms = {
            "Data set": together(run["dataset"] for run in runs),
            "Objectives": together(run["objective"] for run in runs),
            "Seeds": together(str(seed) for seed in sorted({run["seed"] for run in runs})),
        }
        for name in runs[0]["made"]:
            terms[name] = together(run["made"][name] for run in runs)
        return {
            "runs": runs,
            "stale": sum(run["state"].startswith("stale") for run in runs),
            "changed": sum(run["state"].endswith("data changed") for run in runs),
            "terms": terms,
            "differing": differing,
            "shared": [
                f"{key}: {text}" for key, text in configurations[0].items() if key not in differing
            ],
        }

    def _files(self) -> dict[str, Any]:
        """Describe the provenance of a study without runs.

        Returns:
            ``files`` (lines of checksum, modification time and path), ``models`` (records of the
                language models, each with its ``name`` and ``checksum``) and ``shared`` (lines of
                settings).
        """
        folder = self._folder
        results = self._folder.parents[1]
        files = []
        for path in sorted(folder.rglob("*.parquet")):
            written = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(path.stat().st_mtime))
            files.append(
                f"{file_checksum(path)[:16]}  {written}  {path.relative_to(results).as_posix()}"
            )
        return {
            "files": files,
            "models": language_models(results, folder.parent.name),
            "shared": [f"{key}: {text}" for key, text in flat(self.settings).items()],
        }


def together(values: Iterable[str]) -> str:
    """Join the distinct values as text; at most :data:`LISTED` of them are listed and the rest are
    counted.
    """
    distinct = list(dict.fromkeys(values))
    more = f" and {len(distinct) - LISTED} more" if len(distinct) > LISTED else ""
    return "; ".join(distinct[:LISTED]) + more


def flat(settings: Section, within: str = "") -> dict[str, str]:
    """Return nested settings as text by dotted name, after the name that they are within."""
    values: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{within}{key}.")
        else:
            is_text = isinstance(value, str)
            as_json = json.dumps(value, ensure_ascii=False, default=str)
            values[f"{within}{key}"] = value if is_text else as_json
    return values

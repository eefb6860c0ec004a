"""What lies beside the page of a study: settings, comparison, records of its runs, curves, examples."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.store import records
from trueneg.store.user_files import DataChanges

# Sources of data whose text and images must not be shown, whatever their files say.
RESTRICTED_SOURCES = ("mimic_cxr", "ms_cxr", "chexpert", "chexpert_8x200")


@dataclass(frozen=True)
class Artefacts:
    """What ``results/<study>/artefacts`` holds; a study that lacks a file has nothing there.

    Attributes:
        folder: the artefacts' folder.
        settings: the resolved study.
        comparison: gate, primary contrast and selection.
        records: what made each run.
        curves: a row an epoch of a run.
    """

    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    comparison: Mapping[str, Any] = field(default_factory=dict)
    records: Sequence[Mapping[str, Any]] = ()
    curves: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def read(cls, folder: Path) -> "Artefacts":
        """From a folder, which need not exist.

        Raises:
            UserError: if a file is damaged.
        """
        settings, comparison, runs, curves = (
            folder / name for name in ("study.yaml", "comparison.json", "runs.json", "curves.parquet")
        )
        return cls(
            folder,
            records.read_settings(settings) if settings.is_file() else {},
            records.read_json(comparison, records.COMPARISON) if comparison.is_file() else {},
            records.read_json(runs, [records.RUN]) if runs.is_file() else (),
            records.read_rows(curves) if curves.is_file() else pd.DataFrame(),
        )

    @functools.cached_property
    def data_changes(self) -> DataChanges:
        """Which of the runs were trained on data that have changed since."""
        return DataChanges(self.folder.parents[1])

    @property
    def kind(self) -> str:
        """The kind of study."""
        return self.settings.get("kind", "images")

    @property
    def restricted(self) -> bool:
        """Whether the settings say that text and images must not be shown; the files of examples say it for themselves."""
        sections = (self.settings.get("dataset") or {}, self.settings.get("reports") or {})
        return any(part.get("restricted") or part.get("source") in RESTRICTED_SOURCES for part in sections)

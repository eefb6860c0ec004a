"""Inputs of a study's figures and tables: its settings, its gathered tables and its other artefacts."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.config import runs
from trueneg.config.configuration import KINDS
from trueneg.report.labels import variant_name
from trueneg.stats.comparison import selected
from trueneg.stats.measurement import Measurement
from trueneg.store import records
from trueneg.store.rows import IDENTITY, load_rows

MOST_SELECTIONS = 4  # maximum number of selections listed in a figure's footnote; the page lists all
# Note under every figure and table of an image–text study on synthetic data.
PHANTOM = (
    "Phantom: synthetic radiographs and reports whose classes, boxes and class probabilities are known. "
    "Its numbers say nothing of patients and are not those of the papers' data."
)


class Gathered:
    """The artefacts of a study; most are read on first access.

    Args:
        folder: ``results/<study>/artefacts``.

    Attributes:
        settings: settings of the resolved study, as plain values.
        study: the resolved study, of any kind.
    """

    study: Any

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        path = self.folder / "study.yaml"
        self.settings = records.read_settings(path)
        self.study = records.read_study(path, KINDS[self.settings.get("kind", "images")])

    def read(self, *files: str) -> pd.DataFrame:
        """Read one or more parquet artefacts and concatenate their rows."""
        return pd.concat([records.read_rows(self.folder / file) for file in files], ignore_index=True)

    def experiment(self, name: str) -> pd.DataFrame:
        """Read the frame of a theory study's experiment."""
        return self.read(f"simulation/{name}.parquet")

    @functools.cached_property
    def comparison(self) -> Mapping[str, Any]:
        """Gate, primary contrast and selection."""
        return records.read_json(self.folder / "comparison.json", records.COMPARISON)

    @functools.cached_property
    def variants(self) -> pd.DataFrame:
        """Tidy rows of every variant."""
        return load_rows(self.folder / "rows.parquet")

    @functools.cached_property
    def rows(self) -> pd.DataFrame:
        """Tidy rows of the variants selected on the validation split."""
        return selected(self.variants, self.selection)

    @functools.cached_property
    def curves(self) -> pd.DataFrame:
        """Training curves of the selected variants."""
        return selected(records.read_rows(self.folder / "curves.parquet", IDENTITY), self.selection)

    @property
    def selection(self) -> pd.DataFrame:
        """The variant that represents each objective on each data set."""
        return pd.DataFrame(self.comparison["selection"])

    @property
    def gate(self) -> pd.DataFrame:
        """The gate of each data set: whether the data set is informative."""
        return pd.DataFrame(self.comparison["gate"])

    @property
    def dataset(self) -> str:
        """Label of the primary contrast's data set."""
        return self.study.primary.dataset or next(iter(runs.datasets(self.study)))

    @property
    def baseline(self) -> str:
        """The objective that is subtracted in paired differences."""
        return self.study.primary.baseline

    @property
    def primary(self) -> Measurement:
        """The measurement of the primary contrast."""
        return self.study.primary.measurement

    def chosen(self, objective: str) -> str:
        """Return the variant that represents an objective on the primary contrast's data set."""
        of_dataset = self.selection[self.selection["dataset"] == self.dataset]
        return of_dataset.set_index("objective")["variant"][objective]

    @property
    def data_notes(self) -> list[str]:
        """Notes on the study's data, for every figure and table."""
        return [PHANTOM] if self.study.kind == "image-text" and self.study.dataset.source == "phantom" else []

    @property
    def own_note(self) -> str:
        """The end of a footnote that omits the selection: the study's note and the notes on its data."""
        return " ".join(filter(None, [self.study.note, *self.data_notes]))

    @property
    def note(self) -> str:
        """The end of a footnote: the selected variants, the study's note and the notes on its data."""
        swept = [entry for entry in self.comparison["selection"] if entry["candidates"] > 1]
        sentences = [
            f"{entry['dataset']}: {variant_name(entry['objective'], entry['variant'])} of {entry['candidates']} variants, "
            "selected on the validation split."
            for entry in swept
        ]
        if len(swept) > MOST_SELECTIONS:
            names = ", ".join(dict.fromkeys(entry["objective"] for entry in swept))
            sentences = [f"Of {names} one variant each, selected on the validation split of each data set."]
        return " ".join(filter(None, [*sentences, self.own_note]))

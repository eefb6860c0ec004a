"""Inputs of a study's figures and tables: its settings, rows, training curves and other
artefacts.
"""

import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from trueneg.config import runs
from trueneg.io.seals import require_intact
from trueneg.report.declared import primary_dataset
from trueneg.report.labels import (
    CROSSED_INTERVAL,
    PAIRED_INTERVAL,
    choice,
    chosen_name,
    edge_notes,
    few_pilots,
    seed_count,
    variant_name,
)
from trueneg.report.metrics import full_name
from trueneg.specs.kinds import kind_of
from trueneg.stats.comparison import selected
from trueneg.stats.measurement import Measurement
from trueneg.store import records
from trueneg.store.rows import IDENTITY, load_rows

# maximum number of selections listed in a figure's footnote; the page lists all
MOST_SELECTIONS = 4
# Note under every figure and table of an image–text study on synthetic data.
PHANTOM = (
    "Phantom: synthetic radiographs and reports with known classes, boxes and class probabilities."
    " These numbers do not describe patients and cannot be compared with numbers on the papers'"
    " data."
)
# Notes on what an interval over seeds covers.
RESPLIT = (
    "Each seed splits the same data differently, so intervals over seeds cover training and the"
    " split, not new data."
)
SHARED_TEST = (
    "Pilot seeds split the same data, so some test data of the compared seeds were used for"
    " selection."
)
SAME_UNSEEN = "The texts of labels without training are the same for all seeds."
SAME_TEST = (
    "All seeds share the test data, so intervals over seeds cover training, not new test data."
)
NEW_DATA = "Each seed has its own corpus, so intervals over seeds also cover the data."


def methods(study: Any) -> list[str]:
    """Return the names of the trained objectives that can be used on a study's data, follow no
    other, and are no controls. Where positives are drawn by label, losses may use labels, too.
    """
    follow = runs.followed(study)
    return [
        name
        for name, objective in study.objectives.items()
        if name not in follow
        and objective.TRAINED
        and not objective.is_control
        and (study.positives_by_label or not objective.uses_labels)
    ]


class Gathered:
    """The artefacts of a study, most of which are read on first access.

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
        self.study = records.require_valid(self.settings, kind_of(self.settings), path)

    def read(self, *files: str) -> DataFrame:
        """Read one or more parquet artefacts and concatenate their rows."""
        return pd.concat(
            [records.read_rows(self.folder / file) for file in files], ignore_index=True
        )

    def experiment(self, name: str) -> DataFrame:
        """Read the data frame of a theory study's experiment."""
        return self.read(f"simulation/{name}.parquet")

    @functools.cached_property
    def comparison(self) -> Mapping[str, Any]:
        """The headroom of each data set, the primary contrast and the selection."""
        path = self.folder / "comparison.json"
        require_intact(self.folder.parents[1], [path])
        return records.read_json(path, records.ComparisonRecord)

    @functools.cached_property
    def variants(self) -> DataFrame:
        """Tidy rows of every variant."""
        return load_rows(self.folder / "rows.parquet")

    @functools.cached_property
    def rows(self) -> DataFrame:
        """Tidy rows of the compared variant of each objective."""
        return selected(self.variants, self.selection)

    @functools.cached_property
    def curves(self) -> DataFrame:
        """Training curves of the compared variants."""
        return selected(records.read_rows(self.folder / "curves.parquet", IDENTITY), self.selection)

    @property
    def selection(self) -> DataFrame:
        """The compared variant of each objective on each data set."""
        return DataFrame(self.comparison["selection"])

    @property
    def headroom(self) -> DataFrame:
        """One row per data set with the label of its headroom and a sentence about it."""
        return DataFrame(self.comparison["headroom"])

    @property
    def crossed(self) -> DataFrame | None:
        """The primary measurement's comparisons over runs and samples; None: there are none."""
        crossed = self.comparison.get("crossed")
        return DataFrame(crossed) if crossed else None

    @property
    def paired_intervals(self) -> str:
        """What the intervals of paired differences in the primary measurement cover."""
        return PAIRED_INTERVAL if self.crossed is None else CROSSED_INTERVAL

    @property
    def dataset(self) -> str:
        """Label of the data set of the primary contrast."""
        return primary_dataset(self.study)

    @property
    def baseline(self) -> str:
        """Name of the objective that is subtracted in paired differences."""
        return self.study.primary.baseline

    @property
    def primary(self) -> Measurement:
        """The measurement of the primary contrast."""
        return self.study.primary.measurement

    @property
    def margins(self) -> dict[Measurement, float]:
        """The equivalence margin of the primary measurement; empty if the study has none."""
        margin = self.study.primary.margin
        return {} if margin is None else {self.primary: margin}

    @property
    def oracles(self) -> list[str]:
        """Names of the objectives that use the ground truth."""
        return [
            name for name, objective in self.study.objectives.items() if objective.name == "oracle"
        ]

    @property
    def methods(self) -> list[str]:
        """Names of its :func:`methods`."""
        return methods(self.study)

    @property
    def label_notes(self) -> list[str]:
        """A note on the objectives that use labels; empty if there are none."""
        used = [name for name, each in self.study.objectives.items() if each.uses_labels]
        said = "References, not methods, because their loss uses labels"
        if self.study.positives_by_label:
            said = (
                "Positives are drawn by label, so every training uses labels; methods whose loss"
                " uses them, too"
            )
        return [f"{said}: {', '.join(used)}."] if used else []

    @property
    def compared_variants(self) -> dict[str, str]:
        """The compared variant of each objective on the primary contrast's data set."""
        of_dataset = self.selection[self.selection["dataset"] == self.dataset]
        return dict(zip(of_dataset["objective"], of_dataset["variant"], strict=True))

    def chosen(self, objective: str) -> str:
        """Return the compared variant of an objective on the primary contrast's data set."""
        return self.compared_variants[objective]

    @property
    def data_notes(self) -> list[str]:
        """Notes on the study's data, printed under every figure and table."""
        data = getattr(self.study, "dataset", None)
        if data is None:  # a theory or likelihood study
            return []
        notes = [PHANTOM] if data.source == "phantom" else []
        if data.resplit:
            notes.append(RESPLIT)
            if getattr(getattr(data, "labels", None), "test_unseen", 0):
                notes.append(SAME_UNSEEN)
        else:
            notes.append(NEW_DATA if getattr(data, "corpus_per_seed", False) else SAME_TEST)
        return notes

    @property
    def protocol_notes(self) -> list[str]:
        """A sentence about the committed file that names the study's comparisons; empty if there is
        none.
        """
        protocol = self.comparison.get("protocol")
        if not protocol:
            return []
        file = f"Protocol: {protocol['file']} (SHA-256 {protocol['checksum'][:12]}"
        rest = "Comparisons that it does not name are exploratory."
        if protocol["date"] is None:
            return [
                f"{file}). Its commit is unknown, so it cannot be known whether it precedes these"
                f" runs. {rest}"
            ]
        return [
            f"{file}, committed on {protocol['date'][:10]}), committed"
            f" {'before' if protocol['beforehand'] else 'after'} the first of these runs finished."
            f" {rest}"
        ]

    @functools.cached_property
    def names(self) -> Mapping[tuple[str, str], str]:
        """Names of the objectives in tables, with their values if there were several, by data set
        and objective.
        """
        return {
            (entry["dataset"], entry["objective"]): chosen_name(entry)
            for entry in self.comparison["selection"]
        }

    @property
    def selected_by(self) -> Measurement:
        """The measurement of the candidates on the validation split."""
        return Measurement.of(self.comparison["selected by"])

    @property
    def swept(self) -> list[Mapping[str, Any]]:
        """The entries of the selection with several candidates."""
        return [entry for entry in self.comparison["selection"] if entry["candidates"] > 1]

    @property
    def selection_notes(self) -> list[str]:
        """Notes on the values in :attr:`names`: selection rule, the baseline's values, ties, and
        values at grid edges.
        """
        swept = self.swept
        if not swept:
            return []
        names = dict.fromkeys(
            chosen_name(entry) for entry in swept if entry["objective"] == self.baseline
        )
        tied = dict.fromkeys(chosen_name(entry) for entry in swept if entry.get("tied"))
        is_tuned = self.study.tuning is not None
        notes = ["Settings after a name are the first of their lists; nothing was selected."]
        if is_tuned:
            notes = [
                "Settings after a name were selected on the validation split by"
                f" {full_name(self.selected_by)}: the largest mean over pilot seeds"
                f" ({seed_count(entry['seeds'] for entry in swept)})."
            ]
        if names:
            notes.append(f"Baseline: {'; '.join(names)}.")
        if tied:
            notes.append(f"Tied with another candidate, so the first was taken: {'; '.join(tied)}.")
        if few := few_pilots(swept):
            notes.append(f"{few.capitalize()}: another choice may be better.")
        if is_tuned and self._resplits_test:
            notes.append(SHARED_TEST)
        return [*notes, *edge_notes(swept)]

    @property
    def _resplits_test(self) -> bool:
        """Whether each seed draws its test data; the seeds of a text study may differ in their
        labels alone.
        """
        return self.study.dataset.resplit and not getattr(self.study.dataset, "tested", False)

    @property
    def table_notes(self) -> list[str]:
        """The notes under every table that shows selected variants."""
        return [*self.selection_notes, *self.data_notes]

    @property
    def study_note(self) -> str:
        """The study's note and the notes on its data, for footnotes that do not mention the
        selection.
        """
        return " ".join(filter(None, [self.study.note, *self.data_notes]))

    def note_on(self, datasets: Collection[str], objectives: Collection[str]) -> str:
        """Return the end of a figure's footnote: the selected variants among what it draws, and
        :attr:`study_note`.
        """
        swept = [
            entry
            for entry in self.swept
            if entry["objective"] in objectives and entry["dataset"] in datasets
        ]
        notes = [*edge_notes(swept), self.study_note]
        if swept:
            names = dict.fromkeys(entry["objective"] for entry in swept)
            if len(swept) <= MOST_SELECTIONS:
                names = dict.fromkeys(
                    f"{variant_name(entry['objective'], entry['variant'])} on {entry['dataset']}"
                    for entry in swept
                )
            notes.insert(0, f"{choice(self.study.tuning is not None)}: {'; '.join(names)}.")
        return " ".join(filter(None, notes))

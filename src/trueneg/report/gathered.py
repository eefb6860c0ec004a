"""What a study that trains has gathered, and its part of the page: the same for every kind of data."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from trueneg.config import runs
from trueneg.report import catalogue
from trueneg.report.drawing import Drawing
from trueneg.report.formats import Table
from trueneg.report.labels import variant_name
from trueneg.report.page import PageFigure, PageTable, StudyPage
from trueneg.specs.settings import Study
from trueneg.stats.comparison import selected
from trueneg.stats.measurement import Measurement
from trueneg.store import provenance, records
from trueneg.store.rows import IDENTITY, load_rows
from trueneg.store.user_files import DataChanges

MOST_SELECTIONS = 4  # that a figure's footnote names one by one; the page lists all

AnyStudy = TypeVar("AnyStudy", bound=Study)


@dataclass(frozen=True)
class Gathered(Generic[AnyStudy]):
    """What a study's figures and tables are made of.

    Attributes:
        study: the resolved study.
        rows: tidy rows of the variants that the validation split selected.
        variants: tidy rows of every variant.
        curves: training curves, of the selected variants.
        comparison: gate, primary contrast and selection.
        published: printed numbers, each with the data set and the objective that it stands beside.
    """

    study: AnyStudy
    rows: pd.DataFrame
    variants: pd.DataFrame
    curves: pd.DataFrame
    comparison: Mapping[str, Any]
    published: pd.DataFrame

    @classmethod
    def read(cls, folder: Path, model: type[AnyStudy]) -> "Gathered[AnyStudy]":
        """From ``results/<study>/artefacts``, with the study's model."""
        comparison = records.read_json(folder / "comparison.json", records.COMPARISON)
        rows, selection = load_rows(folder / "rows.parquet"), pd.DataFrame(comparison["selection"])
        return cls(
            records.read_study(folder / "study.yaml", model),
            selected(rows, selection),
            rows,
            selected(records.read_rows(folder / "curves.parquet", IDENTITY), selection),
            comparison,
            records.read_rows(folder / "published.parquet"),
        )

    @property
    def dataset(self) -> str:
        """Label of the primary contrast's data set."""
        return self.study.primary.dataset or next(iter(runs.datasets(self.study)))

    @property
    def baseline(self) -> str:
        """The objective that is subtracted."""
        return self.study.primary.baseline

    @property
    def primary(self) -> Measurement:
        """What the primary contrast measures."""
        return self.study.primary.measurement

    @property
    def selection(self) -> pd.DataFrame:
        """The variant that stands for each objective on each data set."""
        return pd.DataFrame(self.comparison["selection"])

    @property
    def gate(self) -> pd.DataFrame:
        """Whether each data set can tell anything."""
        return pd.DataFrame(self.comparison["gate"])

    @property
    def note(self) -> str:
        """What is printed under every figure: what a sweep selected, and the study's own note."""
        swept = [entry for entry in self.comparison["selection"] if entry["candidates"] > 1]
        sentences = [
            f"{entry['dataset']}: {variant_name(entry['objective'], entry['variant'])} of {entry['candidates']} variants, "
            "selected on the validation split."
            for entry in swept
        ]
        if len(swept) > MOST_SELECTIONS:
            names = ", ".join(dict.fromkeys(entry["objective"] for entry in swept))
            sentences = [f"Of {names} one variant each, selected on the validation split of each data set."]
        return " ".join([*sentences, self.study.note]).strip()

    def chosen(self, objective: str) -> str:
        """The variant that stands for an objective on the primary contrast's data set."""
        return self.selection.set_index(["dataset", "objective"]).loc[(self.dataset, objective), "variant"]


def twins(name: str, draw: Callable[..., Any], title: str, caption: str) -> dict[str, Drawing]:
    """A figure and its twin that shows paired differences, by name.

    Args:
        name: of the figure; :func:`trueneg.report.catalogue.with_twins` names the twin.
        draw: draws either, by its keyword ``paired``.
        title: of the figure.
        caption: of both.
    """
    plain, paired = catalogue.with_twins([name])
    return {
        plain: Drawing(partial(draw, paired=False), title, caption),
        paired: Drawing(partial(draw, paired=True), f"{title}: paired differences", caption),
    }


def page_of(
    folder: Path, gathered: Gathered, heading: Callable[[str], tuple[str, str]], table: Callable[[str], Table]
) -> StudyPage:
    """What the page shows of a study.

    Args:
        folder: its artefacts; the figures lie beside them.
        gathered: what was read from there.
        heading: from a figure's or table's name to its title and a sentence on what to see in it.
        table: from a table's name to the table.
    """
    study, comparison = gathered.study, gathered.comparison
    records = json.loads((folder / "runs.json").read_text())
    selection = gathered.selection[gathered.selection["candidates"] > 1]
    chosen = [variant_name(*names) for names in zip(selection["objective"], selection["variant"], strict=True)]
    figures = folder.parent / "figures"
    drawn = [name for name in catalogue.figures_of(study) if (figures / f"{name}.png").is_file()]
    return StudyPage(
        name=folder.parent.name,
        title=study.title,
        question=study.question,
        answer=comparison["primary"]["answer"],
        gate=[f"{gate['dataset']}: {gate['verdict']}" for gate in comparison["gate"]],
        warnings=_warnings(gathered, records, DataChanges(folder.parents[1])),
        # The footnote stands in the picture already.
        figures=[PageFigure(*heading(name), figures / f"{name}.png", figures / f"{name}.pdf") for name in drawn],
        tables=[PageTable(*heading(name), table(name)) for name in catalogue.tables_of(study)],
        config=(folder / "study.yaml").read_text(),
        selection=selection.drop(columns="variant").assign(chosen=chosen) if len(selection) else None,
    )


def _warnings(gathered: Gathered, records: list[Mapping[str, Any]], data: DataChanges) -> list[str]:
    found = [gathered.study.note] if gathered.study.note else []
    stale = sum(provenance.is_stale(record) for record in records)
    if stale:
        found.append(f"{stale} of {len(records)} runs were made with other code than today's (stale).")
    changed = [sentence for record in records if (sentence := data.of_run(record))]
    found += [f"{count} of {len(records)} runs: {sentence}." for sentence, count in Counter(changed).items()]
    # An exact signed-rank test cannot reach p < 0.05 with five pairs, whatever the differences.
    if gathered.comparison["seeds"] < 6:
        found.append(f"{gathered.comparison['seeds']} seeds are too few to tell an effect from noise; 8 or more can.")
    return found

"""Table of a selection: every candidate with its mean on the validation split."""

from trueneg.config import runs
from trueneg.report.declared import Drawing
from trueneg.report.formats import Cell, Table
from trueneg.report.gathered import Gathered
from trueneg.report.labels import INTERVAL, SYMBOLS, settings_name, with_unit
from trueneg.report.metrics import full_name, unit
from trueneg.report.tables.building import mean_cell, records
from trueneg.specs.kinds.trained import TrainedStudy

ORDER = 20
KIND = TrainedStudy


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the table if the study selects variants."""
    if all(len(grid) == 1 for grid in runs.candidates(study).values()):
        return []
    return [
        Drawing(
            "candidates",
            candidates,
            "Every candidate on the validation split",
            "How much depends on the choice? Means on the validation split, by which one candidate"
            " per objective was chosen.",
            ("study.yaml", "comparison.json", "candidates.parquet"),
        )
    ]


def candidates(gathered: Gathered) -> Table:
    """Build a table with one line per candidate, grouped by objective; remarks flag chosen, tied
    and edge values.
    """
    measured = gathered.selected_by
    values = gathered.read("candidates.parquet").assign(metric=measured.metric)
    edges = {
        (entry["dataset"], entry["objective"]): entry.get("at edge")
        for entry in gathered.comparison["selection"]
    }
    lines = []
    for row in records(values):
        remark = "tied" if row["tied"] else ""
        if row["chosen"]:
            remark = "chosen"
            if edge := edges[row["dataset"], row["objective"]]:
                names = (SYMBOLS.get(key, key) for key in edge.split(", "))
                remark += f", at the edge of {', '.join(names)}"
        cells = [mean_cell(row), Cell(str(row["seeds"])), Cell(remark)]
        lines.append(
            (f"{row['dataset']}; {row['objective']}", settings_name(row["variant"]), cells)
        )
    sentences = [f"Validation split; mean ± half of {INTERVAL}.", *gathered.table_notes]
    return Table(
        values,
        [
            ("", with_unit(full_name(measured), unit(measured.metric))),
            ("", "seeds"),
            ("", "remark"),
        ],
        lines,
        sentences,
        corner="candidate",
    )

"""Table of every variant of objectives with several: its mean on the validation split."""

from trueneg.config import runs
from trueneg.report.declared import Drawing
from trueneg.report.formats import Cell, Table
from trueneg.report.gathered import Gathered
from trueneg.report.labels import INTERVAL, SYMBOLS, settings_name, with_unit
from trueneg.report.metrics import full_name, unit
from trueneg.report.tables.building import mean_cell, records
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.tasks import is_validated

ORDER = 20
KIND = TrainedStudy


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the table if objectives have several variants, measured on the validation split."""
    if not (runs.several(study) and is_validated(study)):
        return []
    caption = "How much depends on the choice? Means on the validation split"
    caption += (
        ", by which one candidate per objective was chosen."
        if study.tuning is not None
        else "; of each objective, the first variant is compared."
    )
    return [
        Drawing(
            "candidates",
            candidates,
            "How good was each candidate on the validation split?",
            caption,
            ("study.yaml", "comparison.json", "candidates.parquet"),
        )
    ]


def candidates(gathered: Gathered) -> Table:
    """Build a table with one line per candidate, grouped by objective; remarks flag chosen or
    compared, tied and edge values.
    """
    measured = gathered.selected_by
    values = gathered.read("candidates.parquet").assign(metric=measured.metric)
    edges = {
        (entry["dataset"], entry["objective"]): entry.get("at edge")
        for entry in gathered.comparison["selection"]
    }
    remark_of_chosen = "chosen" if gathered.study.tuning is not None else "compared"
    lines = []
    for row in records(values):
        remark = "tied" if row["tied"] else ""
        if row["chosen"]:
            remark = remark_of_chosen
            if edge := edges[row["dataset"], row["objective"]]:
                names = (SYMBOLS.get(key, key) for key in edge.split(", "))
                remark += f", at the edge of {', '.join(names)}"
        cells = [mean_cell(row), Cell(str(row["seeds"])), Cell(remark)]
        lines.append(
            (f"{row['dataset']}; {row['objective']}", settings_name(row["variant"]), cells)
        )
    sentences = [f"Validation split; mean ± half of {INTERVAL}.", *gathered.table_notes]
    return Table(
        values.rename(columns={"chosen": remark_of_chosen}),
        [
            ("", with_unit(full_name(measured), unit(measured.metric))),
            ("", "seeds"),
            ("", "remark"),
        ],
        lines,
        sentences,
        corner="candidate",
    )

"""Tables of an image–text study: all tasks side by side, each task separately, and the contrasts that the study names."""

from typing import Any

import pandas as pd

from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import ROWS, Drawing
from trueneg.report.formats import Cell, Group, Table
from trueneg.report.gathered import Gathered
from trueneg.report.labels import with_unit
from trueneg.report.layouts import LAYOUTS, comparison_of, tasks
from trueneg.report.metrics import metric_name, unit
from trueneg.report.tables.building import (
    Beside,
    compare,
    difference_text,
    failed_gates,
    group_title,
    runs_of_difference,
    side_by_side,
    with_holm,
)
from trueneg.specs.settings import Study
from trueneg.stats.comparison import half_interval
from trueneg.stats.measurement import by_measurement

ORDER = 20
AT_BOUND = "share at bound"
# Title and caption of the table for each layout in :data:`trueneg.report.layouts.LAYOUTS`.
HEADINGS = {
    "tasks": (
        "Every task, with paired differences",
        "The first paper's Table 1, and beside it the share of anchors that each objective has switched off.",
    ),
    "zero_shot": ("Zero-shot classification by class", "The first paper's Table 3: AUC by difference of two prompts."),
    "retrieval": (
        "Retrieval, both directions",
        "The first paper's Table 5 and ReCo's Table 3; of median ranks the smaller is the better.",
    ),
    "precision": ("Precision of retrieval by label", "ReCo's Table 1."),
    "grounding": (
        "Grounding by finding",
        "The first paper's Table 4: contrast-to-noise ratio and mean IoU of a phrase's heatmap.",
    ),
    "linear_evaluation": ("Classifiers by share of the labels", "ReCo's Table 2, the mean of the classes and each class."),
}


def drawings(study: Study) -> list[Drawing]:
    """Declare the tables for which an image–text study has measurements."""
    if not isinstance(study, ImageTextStudy):
        return []
    dataset: Any = study.dataset
    evaluation = study.evaluation
    # With its own labels, a study must specify the prompts that describe them.
    prompts = dataset.labelled and (dataset.source != "image_table" or evaluation.zero_shot.prompts is not None)
    shown = {
        "tasks": True,
        "zero_shot": prompts,
        "retrieval": True,
        "precision": (prompts and evaluation.precision is not None) or evaluation.chexpert_8x200 is not None,
        "grounding": dataset.boxed,
        "linear_evaluation": dataset.labelled,
    }
    files = {"tasks": (*ROWS, "curves.parquet")}
    found = [
        Drawing(name, layout_table, title, caption, files.get(name, ROWS), {"name": name})
        for name, (title, caption) in HEADINGS.items()
        if shown[name]
    ]
    if study.contrasts:
        title = "What the study asks besides, task by task"
        caption = "Whether it is the estimate that helps: against its own permutation, and against constants."
        found.insert(1, Drawing("contrasts", contrasts, title, caption))
    return found


def layout_table(gathered: Gathered, name: str) -> Table:
    """Build the table for one layout in :data:`trueneg.report.layouts.LAYOUTS`."""
    comparison = comparison_of(gathered)
    layout = LAYOUTS[name](comparison.rows)
    values = compare(comparison.rows, comparison.baseline, layout.keys(comparison.rows))
    return side_by_side(values, layout, comparison, [at_bound(gathered.curves)] if name == "tasks" else [])


def contrasts(gathered: Gathered) -> Table:
    """Build the table of the contrasts that the study names, task by task."""
    comparison = comparison_of(gathered)
    layout, failed = tasks(comparison.rows), failed_gates(comparison.gate)
    keys, named = layout.keys(comparison.rows), [(each.treatment, each.baseline) for each in gathered.study.contrasts]
    parts = []
    for treatment, baseline in named:
        both = comparison.rows[comparison.rows["objective"].isin((treatment, baseline))]
        values = compare(both, baseline, keys)
        parts.append(values[values["objective"] == treatment].assign(baseline=baseline))
    values = with_holm(pd.concat(parts, ignore_index=True))
    cells = {
        (*place, row["objective"], row["baseline"]): Cell(difference_text(row, "", True), runs=runs_of_difference(row))
        for place, group in by_measurement(values).items()
        for _, row in group.iterrows()
    }
    groups = []
    for dataset in dict.fromkeys(values["dataset"]):
        lines = [(" − ".join(contrast), [cells.get((dataset, key, *contrast), Cell("")) for key in keys]) for contrast in named]
        groups.append(Group(group_title(dataset, failed), lines))
    columns = [
        (head.title, with_unit(metric_name(key), unit(key.metric, difference=True)))
        for head, key in zip(layout.heads, keys, strict=True)
    ]
    sentences = [
        "Differences within seeds, with their 95 % t intervals over seeds; the contrasts were named beforehand.",
        "* p < 0.05 (paired t test, Holm's correction over the contrasts of a column).",
        *comparison.notes,
    ]
    return Table(values, columns, groups, sentences, corner="contrast")


def at_bound(curves: pd.DataFrame) -> Beside:
    """Build the column with the fraction of anchors at the bound in the last epoch: mean over seeds ± half its t interval.

    Args:
        curves: one row per epoch and run; runs without ``share at bound`` are shown as a dash.
    """
    last = curves[curves["epoch"] == curves.groupby(["dataset", "objective", "seed"])["epoch"].transform("max")]
    last = last.reindex(columns=["dataset", "objective", "run", AT_BOUND]).dropna(subset=AT_BOUND)
    found = last.groupby(["dataset", "objective"], sort=False, as_index=False).agg(
        count=(AT_BOUND, "count"), mean=(AT_BOUND, "mean"), std=(AT_BOUND, "std"), runs=("run", " ".join)
    )
    found["half"] = half_interval(found["std"], found["count"])
    cells = {}
    for _, row in found.iterrows():
        half = "–" if pd.isna(row["half"]) else f"{100 * row['half']:.1f}"
        cells[row["dataset"], row["objective"]] = Cell(f"{100 * row['mean']:.1f} ± {half}", runs=row["runs"])
    return Beside("anchors at the bound", "last epoch (%)", cells)

"""Tables of an image–text study: all tasks side by side, each task on its own, and the contrasts that the study names."""

from collections.abc import Sequence

import pandas as pd

from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import ROWS, Drawing
from trueneg.report.formats import Cell, Group, Table
from trueneg.report.gathered import Gathered
from trueneg.report.labels import with_unit
from trueneg.report.layouts import LAYOUTS, Comparison, comparison_of, tasks
from trueneg.report.metrics import metric_name, unit
from trueneg.report.tables.building import Beside, compare, difference_text, runs_of_difference, side_by_side
from trueneg.specs.settings import Study
from trueneg.stats.comparison import half_interval, holm
from trueneg.stats.measurement import KEYS, Measurement

ORDER = 20
AT_BOUND = "share at bound"


def drawings(study: Study) -> list[Drawing]:
    """Of an image–text study, those that it has measurements for."""
    if not isinstance(study, ImageTextStudy):
        return []
    # Of own labels a study has to say which sentences stand for them.
    prompts = study.dataset.labelled and (study.dataset.source != "image_table" or study.evaluation.zero_shot.prompts is not None)
    precise = (prompts and study.evaluation.precision is not None) or study.evaluation.chexpert_8x200 is not None
    listed = [
        _layout(
            "tasks",
            "Every task, with paired differences",
            "The first paper's Table 1, and beside it the share of anchors that each objective has switched off.",
            files=(*ROWS, "curves.parquet"),
        ),
        study.contrasts
        and Drawing(
            "contrasts",
            contrasts,
            "What the study asks besides, task by task",
            "Whether it is the estimate that helps: against its own permutation, and against constants.",
        ),
        prompts
        and _layout(
            "zero_shot", "Zero-shot classification by class", "The first paper's Table 3: AUC by difference of two prompts."
        ),
        _layout(
            "retrieval",
            "Retrieval, both directions",
            "The first paper's Table 5 and ReCo's Table 3; of median ranks the smaller is the better.",
        ),
        precise and _layout("precision", "Precision of retrieval by label", "ReCo's Table 1."),
        study.dataset.boxed
        and _layout(
            "grounding",
            "Grounding by finding",
            "The first paper's Table 4: contrast-to-noise ratio and mean IoU of a phrase's heatmap.",
        ),
        study.dataset.labelled
        and _layout(
            "linear_evaluation",
            "Classifiers by share of the labels",
            "ReCo's Table 2, the mean of the classes and each class.",
        ),
    ]
    return [drawing for drawing in listed if drawing]


def _layout(name: str, title: str, caption: str, files: tuple[str, ...] = ROWS) -> Drawing:
    return Drawing(name, of_layout, title, caption, files, {"name": name})


def of_layout(gathered: Gathered, name: str) -> Table:
    """One of :data:`trueneg.report.layouts.LAYOUTS`."""
    return layout_table(name, comparison_of(gathered), [at_bound(gathered.curves)] if name == "tasks" else [])


def contrasts(gathered: Gathered) -> Table:
    """Differences between objectives that the study names, task by task."""
    named = [(each.treatment, each.baseline) for each in gathered.study.contrasts]
    return contrasts_table(comparison_of(gathered), named)


def layout_table(name: str, comparison: Comparison, beside: Sequence[Beside] = ()) -> Table:
    """One of :data:`LAYOUTS` with its numbers.

    Args:
        name: which.
        comparison: what is compared.
        beside: columns after the comparisons.

    Raises:
        ValueError: if the rows hold nothing for the table.
    """
    layout = LAYOUTS[name](comparison.rows)
    keys = layout.keys(comparison.rows)
    if not keys:
        raise ValueError(f"rows hold nothing for the table {name}; found {', '.join(comparison.rows['task'].unique())}.")
    values = compare(comparison.rows, comparison.baseline, keys)
    return side_by_side(
        values, layout.heads, layout.groups, comparison.baseline, comparison.oracle, comparison.gate, beside, comparison.notes
    )


def contrasts_table(comparison: Comparison, named: Sequence[tuple[str, str]]) -> Table:
    """Differences between objectives that the study names, task by task.

    Args:
        comparison: what is compared.
        named: treatment and baseline of each, as the rows name them.

    Raises:
        ValueError: if an objective has no rows.
    """
    layout = tasks(comparison.rows)
    keys = layout.keys(comparison.rows)
    parts = []
    for treatment, baseline in named:
        both = comparison.rows[comparison.rows["objective"].isin((treatment, baseline))]
        values = compare(both, baseline, keys)
        parts.append(values[values["objective"] == treatment].assign(baseline=baseline))
    values = pd.concat(parts, ignore_index=True)
    values["p Holm"] = values.groupby(["dataset", *KEYS], sort=False, dropna=False)["p"].transform(holm)
    passed = comparison.gate.set_index("dataset")["passed"].astype(bool)
    groups = []
    for dataset, of_dataset in values.groupby("dataset", sort=False):
        cells = {
            (row["objective"], row["baseline"], Measurement.of(row)): Cell(
                difference_text(row, "", True), runs=runs_of_difference(row)
            )
            for _, row in of_dataset.iterrows()
        }
        lines = [
            (f"{treatment} − {baseline}", [cells.get((treatment, baseline, key), Cell("")) for key in keys])
            for treatment, baseline in named
        ]
        groups.append(Group(dataset if passed[dataset] else f"{dataset} (uninformative at this size)", lines))
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
    """Share of anchors at the bound in the last epoch, mean over seeds with the half of its t interval.

    Args:
        curves: a row an epoch of a run; a run without ``share at bound`` has a dash.
    """
    last = curves[curves["epoch"] == curves.groupby(["dataset", "objective", "seed"])["epoch"].transform("max")]
    last = last.reindex(columns=["dataset", "objective", "run", AT_BOUND]).dropna(subset=AT_BOUND)
    found = last.groupby(["dataset", "objective"], sort=False).agg(
        count=(AT_BOUND, "count"), mean=(AT_BOUND, "mean"), std=(AT_BOUND, "std"), runs=("run", " ".join)
    )
    half = half_interval(found["std"], found["count"])
    cells = {
        place: Cell(f"{100 * row['mean']:.1f} ± {_plain(100 * half[place])}", runs=row["runs"]) for place, row in found.iterrows()
    }
    return Beside("anchors at the bound", "last epoch (%)", cells)


def _plain(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.1f}"

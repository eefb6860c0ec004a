"""Tables of a trained study: paired differences with their tests, published numbers, and means by
task.
"""

import itertools

import pandas as pd
from pandas import DataFrame

from trueneg.config.equal_temperature import oracle_gains_over
from trueneg.report.declared import (
    ROWS,
    Drawing,
    distinct_pools,
    full_probe,
    probed_pools,
    published_name,
)
from trueneg.report.figures.monitors import last_epoch
from trueneg.report.formats import Cell, Table
from trueneg.report.gathered import Gathered
from trueneg.report.labels import variant_name
from trueneg.report.layouts import (
    CHEXPERT,
    LAYOUTS,
    PRECISION,
    TRAINED,
    Place,
    compared_rows,
    present,
    with_means,
    with_primary,
)
from trueneg.report.metrics import evaluation_name, group_name
from trueneg.report.tables.building import (
    Cells,
    Named,
    compare,
    comparisons,
    difference_table,
    published_table,
    records,
    side_by_side,
)
from trueneg.specs.kinds.images import ImageStudy
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.tasks import measured_by
from trueneg.stats.comparison import means
from trueneg.stats.measurement import Measurement

ORDER = 10
KIND = TrainedStudy
NUMBERS, CURVES = "published.parquet", "curves.parquet"
GROUPS = (None, "rare", "common")  # groups of classes
SHARES = {"anchors at the bound": "share at bound", "negatives removed": "share removed"}
# Title and caption of each table, in page order.
DIFFERENCES = (
    "How large is each paired difference, and what do its tests say?",
    "Differences that are neither primary nor named are exploratory.",
)
PUBLISHED = (
    "How do our numbers compare with {} of {}?",
    "Numbers need not agree where data, networks or training length differ.",
)
HEADINGS = {
    "accuracy": (
        "How accurate is each objective, by evaluation and group of classes?",
        "The primary measurement comes first; the others are exploratory.",
    ),
    "texts": (
        "How does each objective do in every task?",
        "Held-out texts of labels with training, and of labels without it.",
    ),
    "tasks": (
        "How does each objective do in every task?",
        (
            "The layout is that of Sample-Specific Debiasing's Table 1, with further tasks and"
            " columns."
        ),
    ),
    "zero_shot": (
        "Which findings can be classified without training on labels?",
        "AUC of prompt scores, laid out as Sample-Specific Debiasing's Table 3.",
    ),
    "retrieval": (
        "How well are texts found from images, and images from texts?",
        (
            "The layout is that of Sample-Specific Debiasing's Table 5 and ReCo's Table 3; low"
            " ranks are better."
        ),
    ),
    "precision": (
        "How many of the retrieved images have the right label?",
        "The layout is that of ReCo's Table 1.",
    ),
    "grounding": (
        "How well do heatmaps show where a finding is?",
        "CNR and mIoU of heatmaps, laid out as Sample-Specific Debiasing's Table 4.",
    ),
    "linear_evaluation": (
        "How good are classifiers that are trained with few labels?",
        "The mean over classes, and each class, laid out as ReCo's Table 2.",
    ),
}
# tasks whose measurements a table needs; other tables need any
OF_TASKS = {
    "zero_shot": {"zero-shot"},
    "precision": {PRECISION, CHEXPERT},
    "grounding": {"grounding"},
    "linear_evaluation": {*TRAINED},
}
LABELS = "uses labels for"
# Note on the significance of the published differences, shown where ReCo's Table 1 is compared with
# our numbers.
RECO_TABLE_1 = (
    "Of the seven differences in ReCo's Table 1, four have p < 0.05 given the printed standard"
    " errors (four seeds each, Welch's t test), and none after Holm's correction."
)


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the tables for which a trained study has measurements."""
    measured = {row.task for row in measured_by(study)}
    listed = [Drawing("differences", differences, *DIFFERENCES)]
    title, caption = PUBLISHED
    names = ((printed.paper, table) for printed in study.published for table in printed.tables)
    for paper, table in dict.fromkeys(names):
        listed.append(
            Drawing(
                published_name(paper, table),
                published,
                title.format(table, paper),
                caption,
                (*ROWS, NUMBERS),
                {"paper": paper, "table": table},
            )
        )
    for name, heading in HEADINGS.items():
        if name in study.TABLES and measured & OF_TASKS.get(name, measured):
            files = (*ROWS, CURVES) if name == "tasks" else ROWS
            listed.append(Drawing(name, layout_table, *heading, files, {"name": name}))
    return listed


def layout_table(gathered: Gathered, name: str) -> Table:
    """Build the table of means and paired differences for one layout; the towers before training
    come first.
    """
    rows = compared_rows(gathered)
    layout = accuracy(gathered.study, rows) if name == "accuracy" else LAYOUTS[name](rows)
    if name in ("accuracy", "texts"):
        layout = with_primary(layout, gathered.primary)
    values = compare(
        rows, gathered.baseline, present(layout, rows), gathered.margins, named_by(gathered)
    )
    first = gathered.study.first_baseline
    values = values.sort_values("objective", key=lambda names: names != first, kind="stable")
    places = itertools.product(dict.fromkeys(values["dataset"]), gathered.study.objectives)
    used = {place: Cell(gathered.study.labels_used(place[1])) for place in places}
    beside: dict[tuple[str, str], Cells] = {("", LABELS): used}
    if name == "tasks":
        for title, column in SHARES.items():
            beside[title, "last epoch (%)"] = last_share(gathered.curves, column)
    return side_by_side(values, layout, gathered, beside)


def accuracy(study: ImageStudy, rows: DataFrame) -> list[Place]:
    """Lay out the accuracies of an image study: a group of lines per evaluation, primary first; a
    column per group of classes.

    Earlier rows lack the balanced accuracy.
    """
    measured = [study.primary.measurement._replace(group=None)]
    measured += [full_probe(study, pool) for pool in probed_pools(study)]
    pools = distinct_pools(study, study.evaluation.knn.label_pools)
    for task in ("knn", "mean classifier"):
        measured += [Measurement(task, "accuracy", pool) for pool in pools]
    groups = [
        *(GROUPS if study.dataset.rare_classes else GROUPS[:1]),
        *(["macro"] if (rows["group"] == "macro").any() else ()),
    ]
    places = []
    for of, group in itertools.product(dict.fromkeys(measured), groups):
        of_group = of._replace(group=group)
        places.append(Place(evaluation_name(of), group_name(of_group), "accuracy", of_group))
    return places


def named_by(gathered: Gathered) -> Named:
    """Return the comparisons that a study names."""
    study = gathered.study
    primary = study.primary
    return Named(
        gathered.dataset,
        gathered.primary,
        primary.treatment,
        study.contrasts,
        primary.oracle,
        gathered.crossed,
        oracle_gains_over(study, gathered.compared_variants)[-1],
    )


def of_primary(gathered: Gathered) -> DataFrame:
    """Compute the comparisons of a study in its primary measurement and data set."""
    rows = compared_rows(gathered)
    table = comparisons(
        rows, gathered.baseline, [gathered.primary], gathered.margins, named_by(gathered)
    )
    return table[table["dataset"] == gathered.dataset]


def differences(gathered: Gathered) -> Table:
    """Build the table of paired differences, for every measurement in the study's other tables."""
    rows = compared_rows(gathered)
    study = gathered.study
    if "accuracy" in study.TABLES:
        places = accuracy(study, rows)
    else:
        places = [place for layout in LAYOUTS.values() for place in layout(rows)]
    places = with_primary(places, gathered.primary)
    values = comparisons(
        rows, gathered.baseline, present(places, rows), gathered.margins, named_by(gathered)
    )
    return difference_table(
        values.assign(**{LABELS: values["objective"].map(study.labels_used)}),
        [*gathered.protocol_notes, *gathered.label_notes, *gathered.table_notes],
        gathered.names,
    )


def published(gathered: Gathered, paper: str, table: str) -> Table:
    """Build a paper's table with our numbers beside its own; a method may be a variant that the
    study did not select.
    """
    printed = gathered.read(NUMBERS)
    printed = printed[(printed["paper"] == paper) & (printed["table"] == table)]
    variants = gathered.variants
    labels = map(variant_name, variants["objective"], variants["variant"])
    unselected = variants.assign(objective=[*labels])
    named = set(printed["objective"]).difference(gathered.study.objectives)
    unselected = unselected[unselected["objective"].isin(named)]
    rows = pd.concat([gathered.rows, unselected], ignore_index=True)
    notes = [RECO_TABLE_1] if (paper, table) == ("relaxing-contrastiveness", "Table 1") else []
    rows = with_means(rows[rows["split"] == "test"])
    return published_table(rows, printed, [*notes, *gathered.table_notes], gathered.names)


def last_share(curves: DataFrame, column: str) -> Cells:
    """Return a share in the last epoch as a percentage: mean over seeds ± the half-width of its t
    interval.

    Args:
        curves: one row per epoch and run; runs without the column have no cell.
        column: a share recorded in training, such as ``share at bound``.
    """
    last = last_epoch(curves)
    last = last.assign(
        **Measurement("training", column)._asdict(), split="training", value=last.get(column)
    )
    cells = {}
    for row in records(means(last.dropna(subset="value"))):
        half = row["high"] - row["mean"]
        cells[row["dataset"], row["objective"]] = Cell(
            f"{100 * row['mean']:.1f} ± {'–' if pd.isna(half) else f'{100 * half:.1f}'}",
            runs=row["runs"],
        )
    return cells

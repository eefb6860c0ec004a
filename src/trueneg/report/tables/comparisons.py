"""Tables of a trained study: paired differences and named contrasts with their tests, published numbers, and means by task."""

from collections import defaultdict
from typing import Any

import pandas as pd

from trueneg.config import runs
from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.trained_study import OTHERS, TrainedStudy
from trueneg.report.declared import ROWS, Drawing, distinct_pools, full_probe
from trueneg.report.formats import Cell, Table, grouped
from trueneg.report.gathered import Gathered
from trueneg.report.labels import with_unit
from trueneg.report.layouts import LAYOUTS, TRAINED, comparison_of, every_measurement, tasks
from trueneg.report.metrics import evaluation_name, group_name, unit
from trueneg.report.retrieval import CHEXPERT, PRECISION, with_means
from trueneg.report.tables.building import (
    OWN_FAMILY,
    Cells,
    Head,
    Layout,
    Named,
    compare,
    comparisons,
    contrast_name,
    difference_table,
    difference_text,
    group_title,
    headroom_remarks,
    margin_note,
    published_table,
    records,
    runs_of_difference,
    side_by_side,
    with_names,
)
from trueneg.specs.settings import Study
from trueneg.specs.tasks import measured_by
from trueneg.stats.comparison import means
from trueneg.stats.measurement import Measurement

ORDER = 10
PUBLISHED, CURVES = "published.parquet", "curves.parquet"
GROUPS = (None, "rare", "common")  # groups of classes
# Title and caption of each table in page order, including those in :data:`trueneg.report.layouts.LAYOUTS`.
HEADINGS = {
    "contrasts": (
        "Named contrasts",
        "The comparisons that the study names; outside the primary measurement they are exploratory.",
    ),
    "differences": ("Every paired difference, with its tests", "Differences that are neither primary nor named are exploratory."),
    "published": ("Comparison with published numbers", "Numbers need not agree where data, networks or training length differ."),
    "accuracy": ("Accuracy of every objective", "The primary measurement comes first; the others are exploratory."),
    "tasks": (
        "Every task, with paired differences",
        "The layout is that of Sample-Specific Debiasing's Table 1, with further tasks and columns.",
    ),
    "zero_shot": ("Zero-shot classification by class", "AUC of prompt scores, laid out as Sample-Specific Debiasing's Table 3."),
    "retrieval": (
        "Retrieval, both directions",
        "The layout is that of Sample-Specific Debiasing's Table 5 and ReCo's Table 3; low ranks are better.",
    ),
    "precision": ("Precision of retrieval by label", "The layout is that of ReCo's Table 1."),
    "grounding": ("Grounding by finding", "CNR and mIoU of heatmaps, laid out as Sample-Specific Debiasing's Table 4."),
    "linear_evaluation": ("Classifiers by label fraction", "The mean over classes, and each class, laid out as ReCo's Table 2."),
}
# Note on the significance of the published differences, shown where ReCo's Table 1 is compared with our numbers.
RECO_TABLE_1 = (
    "Of the seven differences in ReCo's Table 1, four have p < 0.05 given the printed standard errors (four seeds each, Welch's "
    "t test), and none after Holm's correction."
)
RECO_TABLE_2 = "ReCo's Table 2 is on CheXpert, ours on MIMIC-CXR: compare the order of the methods, not the numbers."


def drawings(study: Study) -> list[Drawing]:
    """Declare the tables for which a trained study has measurements."""
    if not isinstance(study, TrainedStudy):
        return []
    shown: dict[str, Any] = {"differences": True, "published": study.published, "contrasts": study.contrasts}
    shown["accuracy"] = isinstance(study, ImageStudy)
    if isinstance(study, ImageTextStudy):
        known = {measured.task for measured in measured_by(study)}
        shown |= {"tasks": True, "retrieval": True, "zero_shot": "zero-shot" in known}
        shown |= {"precision": known & {PRECISION, CHEXPERT}, "grounding": "grounding" in known}
        shown |= {"linear_evaluation": known & {*TRAINED}}
    made: dict[str, Any] = {"contrasts": contrasts, "differences": differences, "published": published}
    files = {"published": (*ROWS, PUBLISHED), "tasks": (*ROWS, CURVES)}
    return [
        Drawing(name, made.get(name, layout_table), *heading, files.get(name, ROWS), {} if name in made else {"name": name})
        for name, heading in HEADINGS.items()
        if shown.get(name)
    ]


def layout_table(gathered: Gathered, name: str) -> Table:
    """Build the table of means and paired differences for one layout."""
    comparison = comparison_of(gathered)
    rows = comparison.rows
    layout = accuracy(gathered.study) if name == "accuracy" else LAYOUTS[name](rows)
    values = compare(rows, comparison.baseline, layout.keys(rows), comparison.margins, named_by(gathered))
    shares = {"anchors at the bound": "share at bound", "negatives removed": "share removed"} if name == "tasks" else {}
    beside = {(title, "last epoch (%)"): last_share(gathered.curves, column) for title, column in shares.items()}
    return side_by_side(values, layout, comparison, beside)


def accuracy(study: ImageStudy) -> Layout:
    """Lay out the accuracies of an image study: a group of lines per evaluation, primary first; a column per group of classes."""
    probes = (full_probe(study, pool) for pool in distinct_pools(study, study.evaluation.linear_probe.label_pools))
    pools = distinct_pools(study, study.evaluation.knn.label_pools)
    others = (Measurement(task, "accuracy", pool) for task in ("knn", "mean classifier") for pool in pools)
    measured = dict.fromkeys([study.primary.measurement._replace(group=None), *probes, *others])
    groups = GROUPS if study.dataset.rare_classes else GROUPS[:1]
    layout = {evaluation_name(one): [one._replace(group=group) for group in groups] for one in measured}
    return Layout([Head(group_name(one), "accuracy", one.metric) for one in next(iter(layout.values()))], layout)


def compared(gathered: Gathered) -> pd.DataFrame:
    """Compare objectives with the baseline for every measurement in a study's tables."""
    rows = comparison_of(gathered).rows
    return compare(rows, gathered.baseline, _measured(gathered, rows), gathered.margins, named_by(gathered))


def _measured(gathered: Gathered, rows: pd.DataFrame) -> list[Measurement]:
    study = gathered.study
    return accuracy(study).keys(rows) if isinstance(study, ImageStudy) else every_measurement(rows)


def named_by(gathered: Gathered) -> Named:
    """Return the comparisons that a study names."""
    study = gathered.study
    return Named(gathered.dataset, gathered.primary, study.primary.treatment, gathered.baseline, study.contrasts)


def differences(gathered: Gathered) -> Table:
    """Build the table of paired differences, for every measurement in the study's other tables."""
    rows = comparison_of(gathered).rows
    values = comparisons(rows, gathered.baseline, _measured(gathered, rows), gathered.margins, named_by(gathered))
    notes = [*gathered.protocol_notes, *gathered.selection_notes, *gathered.data_notes]
    return difference_table(values, notes, gathered.names)


def published(gathered: Gathered) -> Table:
    """Build the table of published numbers, each with its source; a method may be a variant that the study did not select."""
    printed, found, own = gathered.read(PUBLISHED), [gathered.rows], gathered.variants
    variants = set(printed["objective"]) - set(gathered.study.objectives)
    for label, (objective, values, _) in runs.objectives(gathered.study).items():
        if label in variants:
            of_variant = (own["objective"] == objective) & (own["variant"] == runs.canonical(values))
            found.append(own[of_variant].assign(objective=label))
    rows = pd.concat(found, ignore_index=True)
    of_tables = {"Table 1": RECO_TABLE_1, "Table 2": RECO_TABLE_2}
    printed_in = printed["printed as"].str.startswith
    notes = [note for table, note in of_tables.items() if printed_in(f"relaxing-contrastiveness, {table}:").any()]
    notes += [*gathered.selection_notes, *gathered.data_notes]
    return published_table(with_means(rows[rows["split"] == "test"]), printed, notes, gathered.names)


def contrasts(gathered: Gathered) -> Table:
    """Build the table of the contrasts that the study names, with a column for each measurement."""
    comparison, study, remarks = comparison_of(gathered), gathered.study, headroom_remarks(gathered.headroom)
    rows, named = comparison.rows, named_by(gathered)
    layout = accuracy(study) if isinstance(study, ImageStudy) else tasks(rows)
    values = comparisons(rows, comparison.baseline, layout.keys(rows), comparison.margins, named)
    own = values["contrast"] == f"{named.treatment} − {named.baseline}"
    values = pd.concat([values[own], values[~own & (values["family"] != OTHERS)]], ignore_index=True)
    cells: dict[tuple[str, str], dict[Measurement, Cell]] = defaultdict(dict)
    for row in records(values):
        place = row["dataset"], contrast_name(row, comparison.names)
        cells[place][Measurement.of(row)] = Cell(difference_text(row), runs=runs_of_difference(row))
    lines = (
        (group_title(dataset, remarks, title), contrast, [found.get(key, Cell("")) for key in measured])
        for title, measured in layout.groups.items()
        for (dataset, contrast), found in cells.items()
    )
    columns = [(head.title, with_unit(head.name, unit(head.metric, difference=True))) for head in layout.heads]
    sentences = [
        "Differences within seeds, with their 95 % t intervals over seeds.",
        *gathered.protocol_notes,
        "* p < 0.05 (paired t test with Holm's correction over the contrasts of a family, for each group and column; "
        f"{OWN_FAMILY}; contrasts without a family are not tested).",
        *margin_note(values),
        *comparison.notes,
    ]
    return Table(with_names(values, comparison.names), columns, grouped(lines), sentences, corner="contrast")


def last_share(curves: pd.DataFrame, column: str) -> Cells:
    """Return a share in the last epoch as a percentage: mean over seeds ± the half-width of its t interval.

    Args:
        curves: one row per epoch and run; runs without the column have no cell.
        column: a share recorded in training, such as ``share at bound``.
    """
    last = curves[curves["epoch"] == curves.groupby(["dataset", "objective", "seed"])["epoch"].transform("max")]
    measured = Measurement("training", column)
    shares = last.assign(**measured._asdict(), split="training", value=last.get(column)).dropna(subset="value")
    found = {}
    for row in records(means(shares)):
        mean, half = ("–" if pd.isna(share) else f"{100 * share:.1f}" for share in (row["mean"], row["high"] - row["mean"]))
        found[row["dataset"], row["objective"]] = Cell(f"{mean} ± {half}", runs=row["runs"])
    return found

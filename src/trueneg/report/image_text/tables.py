"""Tables of an image–text study: all tasks side by side, and each task by class, finding, direction or share of labels."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from trueneg.report.formats import Cell, Group, Table
from trueneg.report.image_text.retrieval import (
    CHEXPERT,
    DIRECTIONS,
    PRECISION,
    SENTENCES,
    lengths,
    sentence_labels,
)
from trueneg.report.labels import with_unit
from trueneg.report.metrics import metric_name, unit
from trueneg.report.tables import Beside, Head, compare, difference_table, difference_text, runs_of_difference, side_by_side
from trueneg.stats.comparison import half_interval, holm
from trueneg.stats.measurement import KEYS, Measurement, measurements

RELEVANCE = {"truth": "relevant: every image that it is true of", "report": "relevant: its own report's images"}
TRAINED = ("linear probe", "augmented linear probe", "fine-tuning")  # classifiers, by share of the labels
AT_BOUND = "share at bound"


class Layout(NamedTuple):
    """Where each measurement stands: heads of the columns, and under the title of each group its measurements, one per head."""

    heads: Sequence[Head]
    groups: Mapping[str, Sequence[Measurement]]

    def keys(self, rows: pd.DataFrame) -> list[Measurement]:
        """The measurements that the rows hold."""
        held = set(measurements(rows))
        return [key for key in dict.fromkeys(key for group in self.groups.values() for key in group) if key in held]


class Comparison(NamedTuple):
    """What every table of a study shares.

    Attributes:
        rows: tidy rows, with the means of :func:`trueneg.report.image_text.retrieval.with_means`.
        baseline: the objective that is subtracted.
        oracle: the objective that knows the truth, if there is one.
        gate: whether each data set can tell anything.
        notes: under every table.
    """

    rows: pd.DataFrame
    baseline: str
    oracle: str | None
    gate: pd.DataFrame
    notes: Sequence[str] = ()


def tasks(rows: pd.DataFrame) -> Layout:
    """Sample-specific debiasing's Table 1: one number a task."""
    found = [("zero-shot classification", Measurement("zero-shot", "AUC"))]
    if (labels := sentence_labels(rows)) is not None:
        found.append(("retrieval of sentences", Measurement(SENTENCES, "R", labels, k=_main_length(rows))))
    found.append(("grounding", Measurement("grounding", "CNR")))
    found.append(("CheXpert 8×200", Measurement(CHEXPERT, "Prec")))
    if fractions := _fractions(rows, "linear probe"):
        share = fractions[-1]
        found.append((f"linear probe, {100 * share:g} % of the labels", Measurement("linear probe", "AUC", fraction=share)))
    held = set(measurements(rows))
    found = [(title, key) for title, key in found if key in held]
    return Layout([Head(title, metric_name(key), key.metric) for title, key in found], {"": [key for _, key in found]})


def main_measurements(rows: pd.DataFrame) -> list[Measurement]:
    """Zero-shot AUC, recall of sentences and contrast-to-noise ratio: the three panels of the trade-off."""
    return [key for key in tasks(rows).groups[""] if key.task != "linear probe"]


def zero_shot(rows: pd.DataFrame) -> Layout:
    """Its Table 3: by class."""
    metrics = ("AUC", "ACC", "AUC positive prompt")
    return _by_class(rows, "zero-shot", metrics, "mean of the classes")


def grounding(rows: pd.DataFrame) -> Layout:
    """Its Table 4, by finding too."""
    return _by_class(rows, "grounding", ("CNR", "CNR signed", "mIoU"), "mean of all phrases")


def retrieval(rows: pd.DataFrame) -> Layout:
    """Its Table 5, and ReCo's Table 3: recall and median rank, both directions and their means."""
    chosen = rows[rows["metric"].isin(("R", "MedR"))]
    columns = [*(("R", k) for k in lengths(chosen)), ("R", None), ("MedR", None)]
    groups = {}
    for task, labels in dict.fromkeys(zip(chosen["task"], chosen["labels"], strict=True)):
        what = f"{task}, {RELEVANCE.get(labels, f'relevant={labels}')}"
        for way, title in (*((way, way) for way in DIRECTIONS), (None, "mean of both directions")):
            groups[f"{what}; {title}"] = [Measurement(task, metric, labels, direction=way, k=k) for metric, k in columns]
    return Layout([_mean_of(Measurement("", metric, k=k)) for metric, k in columns], groups)


def precision(rows: pd.DataFrame) -> Layout:
    """ReCo's Table 1: the share of images with the query's label among the first k, of our own test images and of its set."""
    chosen = rows[rows["task"].isin((PRECISION, CHEXPERT))]
    ks = [*lengths(chosen, "Prec"), None]
    groups = {}
    for task, way in sorted(set(zip(chosen["task"], chosen["direction"].fillna(""), strict=True)), reverse=True):
        title = ", ".join(filter(None, ("CheXpert 8×200" if task == CHEXPERT else "", way or "mean of both")))
        groups[title] = [Measurement(task, "Prec", direction=way or None, k=k) for k in ks]
    return Layout([_mean_of(Measurement("", "Prec", k=k)) for k in ks], groups)


def linear_evaluation(rows: pd.DataFrame) -> Layout:
    """ReCo's Table 2: by share of the labels, the mean of the classes and each class."""
    measured = [task for task in TRAINED if (rows["task"] == task).any()]
    fractions = sorted({fraction for task in measured for fraction in _fractions(rows, task)})
    groups = {}
    for task in measured:
        for name in (None, *_classes(rows, task)):
            title = f"{task}; {name or 'mean of the classes'}"
            groups[title] = [Measurement(task, "AUC", fraction=fraction, group=name) for fraction in fractions]
    return Layout([Head(f"{100 * fraction:g} % of the labels", "AUC", "AUC") for fraction in fractions], groups)


LAYOUTS = {
    "tasks": tasks,
    "zero_shot": zero_shot,
    "retrieval": retrieval,
    "precision": precision,
    "grounding": grounding,
    "linear_evaluation": linear_evaluation,
}


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


def differences(comparison: Comparison) -> Table:
    """Every measurement of every table, with its tests."""
    keys = dict.fromkeys(key for layout in LAYOUTS.values() for key in layout(comparison.rows).keys(comparison.rows))
    return difference_table(compare(comparison.rows, comparison.baseline, list(keys)), comparison.baseline, comparison.notes)


def contrasts(comparison: Comparison, named: Sequence[tuple[str, str]]) -> Table:
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
        place: Cell(f"{100 * row['mean']:.1f} ± {_half(100 * half[place])}", runs=row["runs"]) for place, row in found.iterrows()
    }
    return Beside("anchors at the bound", "last epoch (%)", cells)


def _by_class(rows: pd.DataFrame, task: str, metrics: Sequence[str], whole: str) -> Layout:
    groups = {whole: [Measurement(task, metric) for metric in metrics]}
    for name in _classes(rows, task):
        title = "mean of the findings' means" if name == "macro" else name
        groups[title] = [Measurement(task, metric, group=name) for metric in metrics]
    return Layout([_mean_of(Measurement(task, metric)) for metric in metrics], groups)


def _mean_of(measured: Measurement) -> Head:
    return Head(metric_name(measured), "mean", measured.metric)


def _classes(rows: pd.DataFrame, task: str) -> list[str]:
    """The classes of which a task has measurements, in the rows' order."""
    return list(dict.fromkeys(rows.loc[rows["task"] == task, "group"].dropna()))


def _fractions(rows: pd.DataFrame, task: str) -> list[float]:
    """Shares of the labels of a classifier, ascending."""
    return sorted(set(rows.loc[rows["task"] == task, "fraction"]))


def _main_length(rows: pd.DataFrame) -> int:
    """10, as in the paper, or the list length that is nearest to it."""
    return min(lengths(rows[rows["task"] == SENTENCES]), key=lambda k: abs(k - 10))


def _half(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.1f}"

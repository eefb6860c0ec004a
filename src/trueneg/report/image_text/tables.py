"""Tables of an image–text study: all tasks side by side, and each task by class, finding, direction or share of labels."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from trueneg.report.formats import Cell, Group, Table
from trueneg.report.image_text.retrieval import (
    BY_REPORT,
    BY_TRUTH,
    CHEXPERT,
    DIRECTIONS,
    PRECISION,
    SENTENCES,
    lengths,
    sentence_setting,
)
from trueneg.report.labels import read_setting, with_unit
from trueneg.report.tables import Beside, Head, compare_each, difference_table, difference_text, side_by_side
from trueneg.stats.comparison import half_interval, holm
from trueneg.stats.metrics import metric_name, unit

Key = tuple[str, str, str]  # task, setting, metric
RELEVANCE = {BY_TRUTH: "relevant: every image that it is true of", BY_REPORT: "relevant: its own report's images"}
TRAINED = ("linear probe", "augmented linear probe", "fine-tuning")  # classifiers, by share of the labels
AT_BOUND = "share at bound"


class Layout(NamedTuple):
    """Where each measurement stands: heads of the columns, and under the title of each group its keys, one a head."""

    heads: Sequence[Head]
    groups: Mapping[str, Sequence[Key]]

    def keys(self, rows: pd.DataFrame) -> list[Key]:
        """Those that the rows hold."""
        held = set(zip(rows["task"], rows["setting"], rows["metric"], strict=True))
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
    found = [("zero-shot classification", ("zero-shot", "", "AUC"))]
    if (setting := sentence_setting(rows)) is not None:
        found.append(("retrieval of sentences", (SENTENCES, setting, f"R@{_main_length(rows)}")))
    found.append(("grounding", ("grounding", "", "CNR")))
    found.append(("CheXpert 8×200", (CHEXPERT, "", "Prec")))
    if fractions := _fractions(rows, "linear probe"):
        found.append((f"linear probe, {_share(fractions[-1])} of the labels", ("linear probe", fractions[-1], "AUC")))
    found = [(title, key) for title, key in found if _holds(rows, key)]
    return Layout([Head(title, metric_name(key[2]), key[2]) for title, key in found], {"": [key for _, key in found]})


def main_measurements(rows: pd.DataFrame) -> list[Key]:
    """Zero-shot AUC, recall of sentences and contrast-to-noise ratio: the three panels of the trade-off."""
    return [key for key in tasks(rows).groups[""] if key[0] != "linear probe"]


def zero_shot(rows: pd.DataFrame) -> Layout:
    """Its Table 3: by class."""
    metrics = ("AUC", "ACC", "AUC positive prompt")
    return _by_class(rows, "zero-shot", "", metrics, "ACC", "mean of the classes")


def grounding(rows: pd.DataFrame) -> Layout:
    """Its Table 4, by finding too."""
    return _by_class(rows, "grounding", "", ("CNR", "CNR signed", "mIoU"), "mIoU", "mean of all phrases")


def retrieval(rows: pd.DataFrame) -> Layout:
    """Its Table 5, and ReCo's Table 3: recall and median rank, both directions and their means."""
    chosen = rows[rows["task"].str.contains("retrieval")]
    metrics = [*(f"R@{k}" for k in lengths(chosen)), "Recall", "MedR"]
    groups = {}
    for task, setting in dict.fromkeys(zip(chosen["task"], chosen["setting"], strict=True)):
        what = ", ".join(filter(None, (task, RELEVANCE.get(setting, setting))))
        groups |= {f"{what}; {way}": [(task, setting, f"{way} {metric}") for metric in metrics] for way in DIRECTIONS}
        groups[f"{what}; mean of both directions"] = [(task, setting, metric) for metric in metrics]
    return Layout([Head(metric_name(metric), "mean", metric) for metric in metrics], groups)


def precision(rows: pd.DataFrame) -> Layout:
    """ReCo's Table 1: the share of images with the query's label among the first k, of our own test images and of its set."""
    chosen = rows[rows["task"].isin((PRECISION, CHEXPERT))]
    at_k = sorted({name for name in chosen["metric"] if name.startswith("Prec@") and " " not in name}, key=_length)
    groups = {}
    for task, way in sorted(set(zip(chosen["task"], chosen["setting"], strict=True)), reverse=True):
        title = ", ".join(filter(None, ("CheXpert 8×200" if task == CHEXPERT else "", way or "mean of both")))
        groups[title] = [(task, way, metric) for metric in (*at_k, "Prec")]
    return Layout([Head(metric_name(metric), "mean", metric) for metric in (*at_k, "Prec")], groups)


def linear_evaluation(rows: pd.DataFrame) -> Layout:
    """ReCo's Table 2: by share of the labels, the mean of the classes and each class."""
    measured = [task for task in TRAINED if (rows["task"] == task).any()]
    fractions = sorted({setting for task in measured for setting in _fractions(rows, task)}, key=_fraction)
    groups = {}
    for task in measured:
        classes = [""] if not fractions else ["", *_classes(rows, task, "AUC")]
        for name in classes:
            title = f"{task}; {name or 'mean of the classes'}"
            groups[title] = [(task, setting, f"AUC {name}".strip()) for setting in fractions]
    return Layout([Head(f"{_share(setting)} of the labels", "AUC", "AUC") for setting in fractions], groups)


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
    values = compare_each(comparison.rows, comparison.baseline, keys)
    return side_by_side(
        values, layout.heads, layout.groups, comparison.baseline, comparison.oracle, comparison.gate, beside, comparison.notes
    )


def differences(comparison: Comparison) -> Table:
    """Every measurement of every table, with its tests."""
    keys = dict.fromkeys(key for layout in LAYOUTS.values() for key in layout(comparison.rows).keys(comparison.rows))
    return difference_table(compare_each(comparison.rows, comparison.baseline, list(keys)), comparison.baseline, comparison.notes)


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
        values = compare_each(both, baseline, keys)
        parts.append(values[values["objective"] == treatment].assign(baseline=baseline))
    values = pd.concat(parts, ignore_index=True)
    values["p Holm"] = values.groupby(["dataset", "task", "setting", "metric"], sort=False)["p"].transform(holm)
    passed = comparison.gate.set_index("dataset")["passed"].astype(bool)
    groups = []
    for dataset, of_dataset in values.groupby("dataset", sort=False):
        cells = {
            (row["objective"], row["baseline"], row["task"], row["setting"], row["metric"]): Cell(difference_text(row, "", True))
            for _, row in of_dataset.iterrows()
        }
        lines = [
            (f"{treatment} − {baseline}", [cells.get((treatment, baseline, *key), Cell("")) for key in keys])
            for treatment, baseline in named
        ]
        groups.append(Group(dataset if passed[dataset] else f"{dataset} (uninformative at this size)", lines))
    columns = [
        (head.title, with_unit(metric_name(key[2]), unit(key[2], difference=True)))
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
    found = last.reindex(columns=["dataset", "objective", AT_BOUND]).groupby(["dataset", "objective"], sort=False)[AT_BOUND]
    found = found.agg(["count", "mean", "std"]).dropna(subset="mean")
    half = half_interval(found["std"], found["count"])
    texts = {place: f"{100 * row['mean']:.1f} ± {_half(100 * half[place])}" for place, row in found.iterrows()}
    return Beside("anchors at the bound", "last epoch (%)", texts)


def _by_class(rows: pd.DataFrame, task: str, setting: str, metrics: Sequence[str], listed: str, whole: str) -> Layout:
    groups = {whole: [(task, setting, metric) for metric in metrics]}
    for name in _classes(rows, task, listed):
        title = "mean of the findings' means" if name == "macro" else name
        groups[title] = [(task, setting, f"{metric} {name}") for metric in metrics]
    return Layout([Head(metric_name(metric), "mean", metric) for metric in metrics], groups)


def _classes(rows: pd.DataFrame, task: str, metric: str) -> list[str]:
    """The classes of which a metric is measured, in the rows' order."""
    found = dict.fromkeys(rows.loc[rows["task"] == task, "metric"])
    return [name.removeprefix(f"{metric} ") for name in found if name.startswith(f"{metric} ")]


def _holds(rows: pd.DataFrame, key: Key) -> bool:
    return bool((rows[["task", "setting", "metric"]] == list(key)).all(axis=1).any())


def _fractions(rows: pd.DataFrame, task: str) -> list[str]:
    """Settings of a classifier, by rising share of the labels."""
    return sorted(set(rows.loc[rows["task"] == task, "setting"]), key=_fraction)


def _fraction(setting: str) -> float:
    return float(read_setting(setting)["fraction"])


def _share(setting: str) -> str:
    return f"{100 * _fraction(setting):g} %"


def _main_length(rows: pd.DataFrame) -> int:
    """10, as in the paper, or the list length that is nearest to it."""
    return min(lengths(rows[rows["task"] == SENTENCES]), key=lambda k: abs(k - 10))


def _length(metric: str) -> int:
    return int(metric.partition("@")[2])


def _half(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.1f}"

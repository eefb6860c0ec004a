"""Which measurements of an image–text study stand where: all tasks side by side, and each task by class, finding or direction."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from trueneg.report.gathered import Gathered
from trueneg.report.metrics import metric_name
from trueneg.report.retrieval import CHEXPERT, DIRECTIONS, PRECISION, SENTENCES, lengths, sentence_labels, with_means
from trueneg.report.tables.building import Head
from trueneg.stats.measurement import Measurement, measurements

RELEVANCE = {"truth": "relevant: every image that it is true of", "report": "relevant: its own report's images"}
TRAINED = ("linear probe", "augmented linear probe", "fine-tuning")  # classifiers, by share of the labels


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
        rows: tidy rows of the test split, with the means of :func:`trueneg.report.retrieval.with_means`.
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


def comparison_of(gathered: Gathered) -> Comparison:
    """Of the variants that were selected."""
    # The validation split may hold classes that the test split of no seed can measure.
    rows = with_means(gathered.rows[gathered.rows["split"] == "test"])
    return Comparison(rows, gathered.baseline, gathered.study.primary.oracle, gathered.gate, gathered.data_notes)


def tasks(rows: pd.DataFrame) -> Layout:
    """Sample-specific debiasing's Table 1: one number a task."""
    length = min(lengths(rows[rows["task"] == SENTENCES]), key=lambda k: abs(k - 10), default=None)  # the paper's, or the nearest
    share = max(_fractions(rows, "linear probe"), default=1.0)
    known = {
        "zero-shot classification": Measurement("zero-shot", "AUC"),
        "retrieval of sentences": Measurement(SENTENCES, "R", sentence_labels(rows), k=length),
        "grounding": Measurement("grounding", "CNR"),
        "CheXpert 8×200": Measurement(CHEXPERT, "Prec"),
        f"linear probe, {100 * share:g} % of the labels": Measurement("linear probe", "AUC", fraction=share),
    }
    held = set(measurements(rows))
    found = {title: measured for title, measured in known.items() if measured in held}
    heads = [Head(title, metric_name(measured), measured.metric) for title, measured in found.items()]
    return Layout(heads, {"": list(found.values())})


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


_LAYOUTS = (tasks, zero_shot, retrieval, precision, grounding, linear_evaluation)
LAYOUTS: Mapping[str, Callable[[pd.DataFrame], Layout]] = {layout.__name__: layout for layout in _LAYOUTS}


def every_measurement(rows: pd.DataFrame) -> list[Measurement]:
    """What all tables show, once each."""
    return list(dict.fromkeys(key for layout in LAYOUTS.values() for key in layout(rows).keys(rows)))


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

"""Table layouts of image–text studies, all tasks or each task by class, finding or direction, and
of text studies.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from pandas import DataFrame, Series

from trueneg.report.gathered import Gathered
from trueneg.report.metrics import evaluation_name, metric_name
from trueneg.report.tables.building import Head, TableLayout
from trueneg.stats.measurement import Measurement, measurements
from trueneg.store.rows import COLUMNS, typed

DIRECTIONS = ("text to image", "image to text")
SENTENCES, REGIONS = "retrieval sentence", "region retrieval"
PRECISION, CHEXPERT = "precision", "chexpert 8x200"


def lengths(rows: DataFrame, metric: str = "R") -> list[int]:
    """Return the values of k for which the rows contain R@k (or Prec@k), in ascending order."""
    return sorted(set(rows.loc[rows["metric"] == metric, "k"].dropna().astype(int)))


def sentence_labels(rows: DataFrame) -> str | None:
    """Return the relevance used for sentence retrieval: the ground truth if it is known; None if
    there is no such retrieval.
    """
    relevance = set(rows.loc[rows["task"] == SENTENCES, "labels"])
    return next((labels for labels in ("truth", "report") if labels in relevance), None)


def with_means(rows: DataFrame) -> DataFrame:
    """Add the means of R and Prec over both directions at each k, and over k in each direction,
    skipping rows of single labels.

    A k that was not measured in both directions is left out: images as queries have fewer
    candidates, because images of their own patient do not count. The rows already contain the mean
    over directions and k.

    Args:
        rows: tidy rows; they may include other tasks.
    """
    # texts are retrieved in one direction
    is_whole = rows["direction"].notna() & rows["k"].notna() & rows["group"].isna()
    at_k: Any = rows[rows["metric"].isin(("R", "Prec")) & is_whole]
    names = [column for column in COLUMNS if column != "value"]
    measured = [name for name in names if name not in ("direction", "k")]

    def directions(keys: list[str]) -> Series:
        return at_k.groupby(keys, dropna=False)["direction"].transform("nunique")

    at_k = at_k[directions([*measured, "k"]) == directions(measured)]
    # Rows that differ only in the direction, or only in k, become the same measurement of a run.
    pooled: Any = (typed(at_k.assign(direction=None)), typed(at_k.assign(k=pd.NA)))
    means = [
        part.groupby(names, sort=False, as_index=False, dropna=False)["value"].mean()
        for part in pooled
    ]
    return pd.concat([rows, *means], ignore_index=True)


RELEVANCE = {"truth": "relevant: all true pairs", "report": "relevant: pairs from the same report"}
TEXT_LABELS = {
    "seen": "held-out texts like those of the training",
    "unseen": "texts of labels without training",
}
# classifiers evaluated by label fraction
TRAINED = ("linear probe", "augmented linear probe", "fine-tuning")


def compared_rows(gathered: Gathered) -> DataFrame:
    """Return the rows of the selected variants on the test split, with the means of
    :func:`with_means`.

    Some classes of the validation split may not be measurable on any seed's test split.
    """
    return with_means(gathered.rows[gathered.rows["split"] == "test"])


def tasks(rows: DataFrame) -> TableLayout:
    """Lay out Table 1 of Sample-Specific Debiasing, and other tasks; the first metric of each task
    is its main one.

    Retrieval is between boxed regions and sentences, as in the paper, or, if that is not measured,
    between images and sentences.
    """
    measured = set(measurements(rows))
    title = "retrieval between boxed regions and sentences, both directions"
    recall = Measurement(REGIONS, "R", "pair")
    if recall not in measured:
        title = "retrieval between images and sentences, both directions"
        # Use the list length closest to 10, the shortest in the paper.
        ks = lengths(rows[rows["task"] == SENTENCES])
        recall = Measurement(
            SENTENCES,
            "R",
            sentence_labels(rows),
            k=min(ks, key=lambda k: abs(k - 10), default=None),
        )
    share = max(_values(rows, "linear probe", "fraction"), default=1.0)
    columns = [
        ("zero-shot classification", Measurement("zero-shot", "AUC")),
        ("zero-shot classification", Measurement("zero-shot", "ACC")),
        ("grounding", Measurement("grounding", "CNR")),
        ("grounding", Measurement("grounding", "mIoU")),
        (title, recall),
        (title, recall._replace(metric="MedR", k=None)),
        ("CheXpert 8×200", Measurement(CHEXPERT, "Prec")),
        (
            f"linear probe, {100 * share:g} % of the labels",
            Measurement("linear probe", "AUC", fraction=share),
        ),
    ]
    columns = [(title, key) for title, key in columns if key in measured]
    return TableLayout(
        [Head(title, metric_name(key), key.metric) for title, key in columns],
        {"": [key for _, key in columns]},
    )


def texts(rows: DataFrame) -> TableLayout:
    """Lay out the tasks of a text study: a group of lines for labels that are trained on, and one
    for labels that never are.
    """
    measured = set(measurements(rows))
    retrieval = rows[rows["task"] == "retrieval"]
    keys = [
        Measurement("knn", "accuracy"),
        Measurement("linear probe", "accuracy"),
        *(Measurement("retrieval", "R", k=k) for k in lengths(retrieval)),
        Measurement("retrieval", "MRR"),
        Measurement("retrieval", "nDCG", k=10),
        Measurement("clustering", "V-measure"),
    ]
    keys = [
        key
        for key in keys
        if any(key._replace(labels=labels) in measured for labels in TEXT_LABELS)
    ]
    groups = {}
    for labels, title in TEXT_LABELS.items():
        group = [key._replace(labels=labels) for key in keys]
        if measured.intersection(group):
            groups[title] = group
    if (similarity := Measurement("similarity", "Spearman")) in measured:
        groups = {title: [*group, similarity] for title, group in groups.items()}
        groups = groups or {"": [similarity]}
        keys.append(similarity)
    return TableLayout(
        [Head(evaluation_name(key), metric_name(key), key.metric) for key in keys], groups
    )


def zero_shot(rows: DataFrame) -> TableLayout:
    """Lay out Table 3 of Sample-Specific Debiasing: zero-shot classification by class."""
    return _by_class(rows, "zero-shot", ("AUC", "ACC", "AUC positive prompt"), "mean over classes")


def grounding(rows: DataFrame) -> TableLayout:
    """Lay out Table 4 of Sample-Specific Debiasing: grounding overall and by finding."""
    return _by_class(rows, "grounding", ("CNR", "CNR signed", "mIoU"), "mean over phrases")


def retrieval(rows: DataFrame) -> TableLayout:
    """Lay out Table 5 of Sample-Specific Debiasing and ReCo's Table 3: recall and median rank by
    direction, and their means.
    """
    chosen = rows[rows["metric"].isin(("R", "MedR"))]
    columns = [*(("R", k) for k in lengths(chosen)), ("R", None), ("MedR", None)]
    groups = {}
    for task, labels in dict.fromkeys(zip(chosen["task"], chosen["labels"], strict=True)):
        what = f"{task}, {RELEVANCE.get(labels, f'relevant={labels}')}"
        for way, title in (*((way, way) for way in DIRECTIONS), (None, "mean of both directions")):
            groups[f"{what}; {title}"] = [
                Measurement(task, metric, labels, direction=way, k=k) for metric, k in columns
            ]
    return TableLayout([_mean_of(Measurement("", metric, k=k)) for metric, k in columns], groups)


def precision(rows: DataFrame) -> TableLayout:
    """Lay out ReCo's Table 1: share of the top k images that have the query's label, on our test
    images and CheXpert 8×200.
    """
    chosen = rows[rows["task"].isin((PRECISION, CHEXPERT))]
    ks = [*lengths(chosen, "Prec"), None]
    ways = chosen[["task", "direction"]].drop_duplicates().fillna({"direction": ""})
    groups = {}
    for task, way in sorted(ways.itertuples(index=False), reverse=True):
        title = way or "mean of both"
        if task == CHEXPERT:
            title = f"CheXpert 8×200, {title}"
        groups[title] = [Measurement(task, "Prec", direction=way or None, k=k) for k in ks]
    return TableLayout([_mean_of(Measurement("", "Prec", k=k)) for k in ks], groups)


def linear_evaluation(rows: DataFrame) -> TableLayout:
    """Lay out ReCo's Table 2: classifiers by label fraction, for the mean over classes and for each
    class.
    """
    measured = [task for task in TRAINED if (rows["task"] == task).any()]
    fractions = sorted(
        {fraction for task in measured for fraction in _values(rows, task, "fraction")}
    )
    groups = {}
    for task in measured:
        for name in (None, *_values(rows, task, "group")):
            groups[f"{task}; {name or 'mean over classes'}"] = [
                Measurement(task, "AUC", fraction=fraction, group=name) for fraction in fractions
            ]
    return TableLayout(
        [Head(f"{100 * fraction:g} % of the labels", "AUC", "AUC") for fraction in fractions],
        groups,
    )


_LAYOUTS = (tasks, texts, zero_shot, retrieval, precision, grounding, linear_evaluation)
LAYOUTS: Mapping[str, Callable[[DataFrame], TableLayout]] = {
    layout.__name__: layout for layout in _LAYOUTS
}


def every_measurement(rows: DataFrame) -> list[Measurement]:
    """Return the measurements in all tables, without duplicates."""
    return list(
        dict.fromkeys(key for layout in LAYOUTS.values() for key in layout(rows).keys(rows))
    )


def _by_class(rows: DataFrame, task: str, metrics: Sequence[str], whole: str) -> TableLayout:
    groups = {whole: [Measurement(task, metric) for metric in metrics]}
    for name in _values(rows, task, "group"):
        groups["mean over findings" if name == "macro" else name] = [
            Measurement(task, metric, group=name) for metric in metrics
        ]
    return TableLayout([_mean_of(Measurement(task, metric)) for metric in metrics], groups)


def _mean_of(measured: Measurement) -> Head:
    return Head(metric_name(measured), "mean", measured.metric)


def _values(rows: DataFrame, task: str, column: str) -> list[Any]:
    """Return the distinct values of a column in a task's rows, in row order."""
    return list(rows.loc[rows["task"] == task, column].dropna().unique())

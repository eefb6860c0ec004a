"""Table layouts of image–text studies, all tasks or each task by class, finding or direction, and
of text studies.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from trueneg.report.gathered import Gathered
from trueneg.report.metrics import evaluation_name, metric_name
from trueneg.report.tables.building import Head, Layout
from trueneg.stats.measurement import Measurement, measurements
from trueneg.store.rows import COLUMNS, typed

DIRECTIONS = ("text to image", "image to text")
SENTENCES, REGIONS = "retrieval sentence", "region retrieval"
PRECISION, CHEXPERT = "precision", "chexpert 8x200"


def lengths(rows: pd.DataFrame, metric: str = "R") -> list[int]:
    """Return the values of k for which the rows contain R@k (or Prec@k), in ascending order."""
    return sorted(set(rows.loc[rows["metric"] == metric, "k"].dropna().astype(int)))


def sentence_labels(rows: pd.DataFrame) -> str | None:
    """Return the relevance used for sentence retrieval: the ground truth if it is known; None if
    there is no such retrieval.
    """
    relevance = set(rows.loc[rows["task"] == SENTENCES, "labels"])
    return next((labels for labels in ("truth", "report") if labels in relevance), None)


def with_means(rows: pd.DataFrame) -> pd.DataFrame:
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
    measured: Any = at_k.groupby(
        [name for name in names if name not in ("direction", "k")], dropna=False
    )
    directions = at_k.groupby([name for name in names if name != "direction"], dropna=False)[
        "direction"
    ].transform("nunique")
    at_k = at_k[directions == measured["direction"].transform("nunique")]
    # Rows that differ only in the direction, or only in k, become the same measurement of a run.
    pooled: Any = [typed(at_k.assign(direction=None)), typed(at_k.assign(k=pd.NA))]
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


def compared_rows(gathered: Gathered) -> pd.DataFrame:
    """Return the rows of the selected variants on the test split, with the means of
    :func:`with_means`.

    Some classes of the validation split may not be measurable on any seed's test split.
    """
    return with_means(gathered.rows[gathered.rows["split"] == "test"])


def tasks(rows: pd.DataFrame) -> Layout:
    """Lay out Table 1 of Sample-Specific Debiasing, and other tasks; the first metric of each task
    is its main one.

    Retrieval is between boxed regions and sentences, as in the paper, or, if that is not measured,
    between images and sentences.
    """
    measured = set(measurements(rows))
    title, recall = (
        "retrieval between boxed regions and sentences, both directions",
        Measurement(REGIONS, "R", "pair"),
    )
    if recall not in measured:
        # Use the list length closest to 10, the shortest in the paper.
        length = min(
            lengths(rows[rows["task"] == SENTENCES]), key=lambda k: abs(k - 10), default=None
        )
        title = "retrieval between images and sentences, both directions"
        recall = Measurement(SENTENCES, "R", sentence_labels(rows), k=length)
    share = max(_values(rows, "linear probe", "fraction"), default=1.0)
    by_title = {
        "zero-shot classification": [
            Measurement("zero-shot", "AUC"),
            Measurement("zero-shot", "ACC"),
        ],
        "grounding": [Measurement("grounding", "CNR"), Measurement("grounding", "mIoU")],
        title: [recall, recall._replace(metric="MedR", k=None)],
        "CheXpert 8×200": [Measurement(CHEXPERT, "Prec")],
        f"linear probe, {100 * share:g} % of the labels": [
            Measurement("linear probe", "AUC", fraction=share)
        ],
    }
    columns = [
        (title, key) for title, of_task in by_title.items() for key in of_task if key in measured
    ]
    heads = [Head(title, metric_name(key), key.metric) for title, key in columns]
    return Layout(heads, {"": [key for _, key in columns]})


def texts(rows: pd.DataFrame) -> Layout:
    """Lay out the tasks of a text study: a group of lines for labels that are trained on, and one
    for labels that never are.
    """
    measured = set(measurements(rows))
    recalls = [
        Measurement("retrieval", "R", k=k) for k in lengths(rows[rows["task"] == "retrieval"])
    ]
    keys = [
        Measurement("knn", "accuracy"),
        Measurement("linear probe", "accuracy"),
        *recalls,
        Measurement("retrieval", "MRR"),
    ]
    keys += [Measurement("retrieval", "nDCG", k=10), Measurement("clustering", "V-measure")]
    groups = {
        TEXT_LABELS[labels]: [key._replace(labels=labels) for key in keys] for labels in TEXT_LABELS
    }
    groups = {title: group for title, group in groups.items() if measured.intersection(group)}
    keys = [
        key
        for place, key in enumerate(keys)
        if any(group[place] in measured for group in groups.values())
    ]
    groups = {
        title: [key for key in group if key._replace(labels=None) in keys]
        for title, group in groups.items()
    }
    if (similarity := Measurement("similarity", "Spearman")) in measured:
        keys, groups = (
            [*keys, similarity],
            {title: [*group, similarity] for title, group in groups.items()} or {"": [similarity]},
        )
    return Layout(
        [Head(evaluation_name(key), metric_name(key), key.metric) for key in keys], groups
    )


def zero_shot(rows: pd.DataFrame) -> Layout:
    """Lay out Table 3 of Sample-Specific Debiasing: zero-shot classification by class."""
    metrics = ("AUC", "ACC", "AUC positive prompt")
    return _by_class(rows, "zero-shot", metrics, "mean over classes")


def grounding(rows: pd.DataFrame) -> Layout:
    """Lay out Table 4 of Sample-Specific Debiasing: grounding overall and by finding."""
    return _by_class(rows, "grounding", ("CNR", "CNR signed", "mIoU"), "mean over phrases")


def retrieval(rows: pd.DataFrame) -> Layout:
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
    return Layout([_mean_of(Measurement("", metric, k=k)) for metric, k in columns], groups)


def precision(rows: pd.DataFrame) -> Layout:
    """Lay out ReCo's Table 1: share of the top k images that have the query's label, on our test
    images and CheXpert 8×200.
    """
    chosen = rows[rows["task"].isin((PRECISION, CHEXPERT))]
    ks = [*lengths(chosen, "Prec"), None]
    groups = {}
    for task, way in sorted(
        set(zip(chosen["task"], chosen["direction"].fillna(""), strict=True)), reverse=True
    ):
        title = ", ".join(
            filter(None, ("CheXpert 8×200" if task == CHEXPERT else "", way or "mean of both"))
        )
        groups[title] = [Measurement(task, "Prec", direction=way or None, k=k) for k in ks]
    return Layout([_mean_of(Measurement("", "Prec", k=k)) for k in ks], groups)


def linear_evaluation(rows: pd.DataFrame) -> Layout:
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
            title = f"{task}; {name or 'mean over classes'}"
            groups[title] = [
                Measurement(task, "AUC", fraction=fraction, group=name) for fraction in fractions
            ]
    return Layout(
        [Head(f"{100 * fraction:g} % of the labels", "AUC", "AUC") for fraction in fractions],
        groups,
    )


_LAYOUTS = (tasks, texts, zero_shot, retrieval, precision, grounding, linear_evaluation)
LAYOUTS: Mapping[str, Callable[[pd.DataFrame], Layout]] = {
    layout.__name__: layout for layout in _LAYOUTS
}


def every_measurement(rows: pd.DataFrame) -> list[Measurement]:
    """Return the measurements in all tables, without duplicates."""
    return list(
        dict.fromkeys(key for layout in LAYOUTS.values() for key in layout(rows).keys(rows))
    )


def _by_class(rows: pd.DataFrame, task: str, metrics: Sequence[str], whole: str) -> Layout:
    groups = {whole: [Measurement(task, metric) for metric in metrics]}
    for name in _values(rows, task, "group"):
        title = "mean over findings" if name == "macro" else name
        groups[title] = [Measurement(task, metric, group=name) for metric in metrics]
    return Layout([_mean_of(Measurement(task, metric)) for metric in metrics], groups)


def _mean_of(measured: Measurement) -> Head:
    return Head(metric_name(measured), "mean", measured.metric)


def _values(rows: pd.DataFrame, task: str, column: str) -> list[Any]:
    """Return the distinct values of a column in a task's rows, in row order."""
    return list(rows.loc[rows["task"] == task, column].dropna().unique())

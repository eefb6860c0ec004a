"""Table layouts of image–text studies, all tasks or each task by class, finding or direction, and
of text studies.
"""

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
from pandas import DataFrame, Series

from trueneg.report.gathered import Gathered
from trueneg.report.metrics import evaluation_name, metric_name
from trueneg.specs.tasks.texts.retrieval import BY_LABEL, OF_ALL, RECALL_OF_ALL
from trueneg.stats.measurement import KEYS, Measurement, measurements
from trueneg.store.rows import COLUMNS

DIRECTIONS = ("text to image", "image to text")
SENTENCES, REGIONS = "retrieval sentence", "region retrieval"
PRECISION, CHEXPERT = "precision", "chexpert 8x200"


class Place(NamedTuple):
    """Where a table shows a measurement: its mean, and the difference beside it.

    Attributes:
        group: title of the group of lines, after the name of the data set.
        top: spanning title of the two columns.
        name: name of the mean, without its unit.
        measured: the measurement.
    """

    group: str
    top: str
    name: str
    measured: Measurement


def _mean_of(measured: Measurement) -> tuple[str, str]:
    """Return the metric's name, above a column of means."""
    return metric_name(measured), "mean"


@dataclass(frozen=True)
class TableLayout:
    """Pivots measurements to a table: some keys have groups of lines, the others have columns.

    Attributes:
        where: values of keys, in order; the table has no other measurements. Of other keys, numbers
            ascend before none, and names follow none in the order of the rows.
        lines: keys with groups of lines.
        title: title of a group, from these keys.
        head: spanning title and name of a column, from the other keys.
    """

    where: Mapping[str, Collection[Any]]
    lines: Collection[str]
    title: Callable[[Measurement], str]
    head: Callable[[Measurement], tuple[str, str]] = _mean_of

    def __call__(self, rows: DataFrame) -> list[Place]:
        """Return the places of the measurements in the rows, for each combination of a group and a
        column.
        """
        chosen = [
            each
            for each in measurements(rows)
            if all(getattr(each, key) in values for key, values in self.where.items())
        ]
        groups = self._distinct(chosen, set(KEYS).difference(self.lines))
        places = []
        for group, column in itertools.product(groups, self._distinct(chosen, self.lines)):
            measured = column._replace(**{key: getattr(group, key) for key in self.lines})
            places.append(Place(self.title(group), *self.head(column), measured))
        return places

    def _distinct(
        self, chosen: Iterable[Measurement], left_out: Iterable[str]
    ) -> list[Measurement]:
        """Return the distinct measurements without some keys, in the order of the table."""
        nothing: Any = dict.fromkeys(left_out)
        distinct = dict.fromkeys(each._replace(**nothing) for each in chosen)
        orders = []
        for key, values in zip(KEYS, zip(*distinct, strict=True), strict=False):
            numbers = sorted(value for value in values if isinstance(value, int | float))
            orders.append([*self.where.get(key, ()), *numbers, None, *values])
        return sorted(
            distinct,
            key=lambda each: [order.index(of) for order, of in zip(orders, each, strict=True)],
        )


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
    # rows that differ only in the direction, or only in k, become the same measurement of a run
    means = []
    for kept in ("k", "direction"):
        by_kept = at_k.groupby([*measured, kept], sort=False, as_index=False, dropna=False)
        means.append(by_kept["value"].mean())
    return pd.concat([rows, *means], ignore_index=True)


RELEVANCE = {"truth": "relevant: all true pairs", "report": "relevant: pairs from the same report"}
TEXT_LABELS = {
    "seen": "held-out texts like those of the training",
    "unseen": "texts of labels without training",
}
TEXT_LABELS |= {
    f"{labels}{BY_LABEL}": f"{title}, every text with the label is right"
    for labels, title in TEXT_LABELS.items()
}
# classifiers evaluated by label fraction
TRAINED = ("linear probe", "augmented linear probe", "fine-tuning")


@functools.lru_cache(maxsize=1)
def compared_rows(gathered: Gathered) -> DataFrame:
    """Return the rows of the selected variants on the test split, with the means of
    :func:`with_means`.

    Some classes of the validation split may not be measurable on any seed's test split.
    """
    return with_means(gathered.rows[gathered.rows["split"] == "test"])


def sentence_recall(measured: Iterable[Measurement]) -> Measurement:
    """Return the recall of sentence retrieval, of the true pairs if they are known, for the length
    closest to 10, the shortest in the paper.
    """
    recalls = [
        each
        for each in measured
        if (each.task, each.metric, each.direction) == (SENTENCES, "R", None) and each.k
    ]
    return min(
        recalls,
        key=lambda each: (each.labels != "truth", abs((each.k or 0) - 10), each.k),
        default=Measurement(SENTENCES, "R"),
    )


def tasks(rows: DataFrame) -> list[Place]:
    """Lay out Table 1 of Sample-Specific Debiasing, and other tasks; the first metric of each task
    is its main one.

    Retrieval is between boxed regions and sentences, as in the paper, or, if that is not measured,
    between images and sentences.
    """
    measured = measurements(rows)
    title = "retrieval between boxed regions and sentences, both directions"
    recall = Measurement(REGIONS, "R", "pair")
    if recall not in measured:
        title = "retrieval between images and sentences, both directions"
        recall = sentence_recall(measured)
    share = rows.loc[rows["task"] == "linear probe", "fraction"].max()
    probe = Measurement("linear probe", "AUC", fraction=share)
    columns = {
        "zero-shot classification": [Measurement("zero-shot", name) for name in ("AUC", "ACC")],
        "grounding": [Measurement("grounding", name) for name in ("CNR", "mIoU")],
        title: [recall, recall._replace(metric="MedR", k=None)],
        "CheXpert 8×200": [Measurement(CHEXPERT, "Prec")],
        f"linear probe, {100 * share:g} % of the labels": [probe],
    }
    return [
        Place("", top, metric_name(key), key)
        for top, keys in columns.items()
        for key in keys
        if key in measured
    ]


def texts(rows: DataFrame) -> list[Place]:
    """Lay out the tasks of a text study: a group of lines for labels that are trained on, and one
    for labels that never are.
    """
    similarity = Measurement("similarity", "Spearman")
    names = evaluation_name(similarity), metric_name(similarity)
    if similarity not in measurements(rows):
        return TEXT_TASKS(rows)
    places = []
    groups = itertools.groupby(TEXT_TASKS(rows), key=lambda place: place.group)
    for title, of_group in [(title, [*group]) for title, group in groups] or [("", [])]:
        places += [*of_group, Place(title, *names, similarity)]
    return places


def _by_class(task: str, metrics: Collection[str], whole: str) -> TableLayout:
    titles = {None: whole, "macro": "mean over findings"}
    return TableLayout(
        {"task": [task], "metric": metrics},
        ["group"],
        lambda of: titles.get(of.group, str(of.group)),
    )


TEXT_TASKS = TableLayout(
    {
        "task": ("knn", "linear probe", "retrieval", "clustering"),
        "metric": ("accuracy", "R", RECALL_OF_ALL, "MRR", "nDCG", *OF_ALL, "V-measure"),
        "labels": TEXT_LABELS,
        "group": [None],
    },
    ["labels"],
    lambda of: TEXT_LABELS[str(of.labels)],
    lambda of: (evaluation_name(of), metric_name(of)),
)
LAYOUTS: Mapping[str, Callable[[DataFrame], list[Place]]] = {
    "tasks": tasks,
    "texts": texts,
    # Table 3 of Sample-Specific Debiasing
    "zero_shot": _by_class("zero-shot", ("AUC", "ACC", "AUC positive prompt"), "mean over classes"),
    # Table 5 of Sample-Specific Debiasing and ReCo's Table 3
    "retrieval": TableLayout(
        {"metric": ("R", "MedR"), "direction": [*DIRECTIONS, None], "group": [None]},
        ["task", "labels", "direction"],
        lambda of: (
            f"{of.task}, {RELEVANCE.get(str(of.labels), f'relevant={of.labels}')};"
            f" {of.direction or 'mean of both directions'}"
        ),
    ),
    # ReCo's Table 1: share of the top k images with the query's label, also on CheXpert 8×200
    "precision": TableLayout(
        {
            "task": (PRECISION, CHEXPERT),
            "metric": ["Prec"],
            "direction": ["text to image", "image to text", "image to image", None],
            "group": [None],
        },
        ["task", "direction"],
        lambda of: "CheXpert 8×200, " * (of.task == CHEXPERT) + (of.direction or "mean of both"),
    ),
    # Table 4 of Sample-Specific Debiasing
    "grounding": _by_class("grounding", ("CNR", "CNR signed", "mIoU"), "mean over phrases"),
    # ReCo's Table 2
    "linear_evaluation": TableLayout(
        {"task": TRAINED, "metric": ["AUC"]},
        ["task", "group"],
        lambda of: f"{of.task}; {of.group or 'mean over classes'}",
        lambda of: (f"{100 * (of.fraction or 1):g} % of the labels", "AUC"),
    ),
}


def with_primary(places: list[Place], primary: Measurement) -> list[Place]:
    """Return places with that of the primary measurement, which comes first if it was missing, as
    for one class.
    """
    if any(place.measured == primary for place in places):
        return places
    place = Place("primary", evaluation_name(primary), metric_name(primary), primary)
    return [place, *places]


def present(places: Iterable[Place], rows: DataFrame) -> list[Measurement]:
    """Return the measurements of a layout that the rows contain, without duplicates."""
    measured = set(measurements(rows))
    return [key for key in dict.fromkeys(place.measured for place in places) if key in measured]

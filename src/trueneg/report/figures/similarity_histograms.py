"""Distributions of similarity by the relation between image and text, or between two images (ReCo's
Figs. 4 and 6).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy import ndarray
from pandas import DataFrame, Series

from trueneg.config import runs
from trueneg.report.declared import Drawing, per_objective
from trueneg.report.drawing import Figure, LineStyle, add_legend, finish, line_styles, unmarked
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import minus
from trueneg.report.plots import facets
from trueneg.specs.kinds.trained import TrainedStudy

ORDER = 50
KIND = TrainedStudy
ALL = "all pairs"
DASHES = {
    "own pair": "-",
    "true of the image": "--",
    "not true of the image": ":",
    "same class": "--",
    "another class": ":",
}
# Pairs of relations whose separation is stated, and its name in panel titles.
SEPARATED = {
    ("true of the image", "not true of the image"): "true > not true",
    ("same class", "another class"): "same class > another class",
}
BINS = 50
TAIL = 0.001  # maximum fraction of each objective's pairs beyond either end of the axis


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the similarity histograms if an image–text study requests them."""
    return per_objective(
        study,
        "similarities",
        similarity_histograms,
        "Similarity of pairs by relation",
        "ReCo's Figs. 4 and 6, and each objective by relation: are all pairs right-tailed, and are"
        " texts that are true of an image, or pairs of the same class, apart from the others?",
    )


def similarity_histograms(gathered: Gathered, files: Sequence[str]) -> Figure:
    """Plot distributions of similarity on one axis: all pairs of every objective, then a panel per
    objective by relation.

    On CheXpert 8×200, text–image and image–image pairs each have their own column of panels and
    their own axis.

    The titles state skewness and the share of all pairs at or below 0, and how well the similarity
    separates pairs: the probability that, of two texts from other reports, the one that is true of
    the image is more similar to it than the one that is not; on CheXpert 8×200, that a pair of the
    same class is more similar than a pair of different classes.
    """
    import seaborn

    pairs = gathered.read(*files)
    is_all = pairs["relation"] == ALL
    objective = pairs["objective"]
    relation = pairs["relation"]
    table = pairs.assign(panel=objective.mask(is_all, ALL), line=relation.mask(is_all, objective))
    table = pd.concat([table[is_all], table[~is_all]])
    by = [column for column in ("panel", "pairs") if column in table]
    share: Any = "col" if "pairs" in by else True
    figure, parts = facets(
        table, *by, size=(2.9, 2.3), share=share, xlabel="Similarity", ylabel="Density"
    )
    looks = _styles(gathered.study, list(objective.unique()))
    for plot, (panel, *kind), part in parts:
        of_kind = pairs[pairs["pairs"] == kind[0]] if kind else pairs
        edges = _edges(of_kind)
        by_line: dict[Any, Series] = dict(list(part.groupby("line", sort=False)["similarity"]))
        for name, values in by_line.items():
            style = looks[name] if panel == ALL else looks[panel]._replace(linestyle=DASHES[name])
            seaborn.histplot(
                x=values,
                bins=edges,
                stat="density",
                element="step",
                label=name,
                ax=plot,
                color=style.color,
                linestyle=style.linestyle,
                linewidth=1.4,
                alpha=0.15 * (panel == ALL),
            )
        of_panel = of_kind[of_kind["objective"] == panel]
        numbers = [
            _tail(of_panel.loc[of_panel["relation"] == ALL, "similarity"]),
            _separation(by_line),
        ]
        plot.grid(axis="y", visible=False)
        plot.set_title("\n".join(filter(None, [", ".join([panel, *kind]), *numbers])), fontsize=9)
    # after all panels, because setting a limit turns off autoscaling of the shared axis
    for plot, *_ in parts:
        plot.set_ylim(bottom=0)
    drawn = {
        name: LineStyle("0.35", "", dashes)
        for name, dashes in DASHES.items()
        if name in set(pairs["relation"])
    }
    add_legend(figure, looks | drawn)
    dataset, seed = pairs[["dataset", "seed"]].iloc[0]
    most = pairs.groupby(["objective", *by[1:], "relation"]).size().max()
    where = "CheXpert 8×200" if "pairs" in by else f"{dataset}, test split"
    return finish(
        figure, f"{where}, seed {seed}: at most {most:,} pairs per line.", gathered.study_note
    )


def _edges(pairs: DataFrame) -> ndarray:
    """Return bin edges that leave at most :data:`TAIL` of each objective's pairs beyond either
    end.
    """
    ends = pairs.groupby("objective")["similarity"].quantile(np.array([TAIL, 1 - TAIL])).unstack()
    return np.linspace(ends[TAIL].min(), ends[1 - TAIL].max(), BINS + 1)


def _styles(study: TrainedStudy, labels: Sequence[str]) -> dict[str, LineStyle]:
    """Return the styles of variants by label: those of their objectives, unless two belong to the
    same objective.
    """
    of_objective = {
        label: name for name, variants in runs.variants(study).items() for label in variants
    }
    looks = line_styles(study.objectives)
    styles = {label: looks[of_objective[label]] for label in labels}
    return unmarked(styles if len(set(styles.values())) == len(styles) else line_styles(labels))


def _tail(values: Series) -> str:
    """Return the skewness of all pairs and their share at or below 0 as a line of the title; empty
    without a sample.
    """
    if values.empty:
        return ""
    return minus(
        f"skewness {scipy.stats.skew(values):.2f}; {100 * (values <= 0).mean():.0f}\u00a0% at or"
        " below 0"
    )


def _separation(by_relation: dict[Any, Series]) -> str:
    """Return the separation, such as P(true > not true), as a line of the title; empty if a
    relation is missing.
    """
    for (higher, lower), name in SEPARATED.items():
        if {higher, lower} <= by_relation.keys():
            above = by_relation[higher]
            below = by_relation[lower]
            separated = scipy.stats.mannwhitneyu(above, below).statistic
            return f"P({name}) {separated / (len(above) * len(below)):.2f}"
    return ""

"""Training curves: the loss, and monitors that may explain a result.

All figures read a table with one row per epoch and run and one column per monitor. If an objective
lacks a monitor, the table contains NaN and the figure has no line for it.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame

from trueneg.report.declared import CURVES, Drawing
from trueneg.report.drawing import (
    Figure,
    LineStyle,
    Styles,
    add_legend,
    finish,
    line_styles,
    styles_of,
)
from trueneg.report.gathered import Gathered
from trueneg.report.plots import draw_intervals, facets, interval_note
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.settings import values_of
from trueneg.stats.comparison import add_interval

ORDER = 100
KIND = TrainedStudy
GROUPS = ("common", "rare")
MEANS = {
    "estimated mean": LineStyle("#0072b2", "o", "-"),
    "true mean": LineStyle("#d55e00", "s", (0, (5, 1.5))),
}
KEYS = ["dataset", "objective", "epoch"]
MOST_LINEAR = 100  # ratio of the largest to the smallest line's peak that a linear axis can show


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the monitors of a trained study; some need known classes, others pairs."""
    drawings = [
        Drawing(
            "training_loss",
            by_objective,
            "Training loss",
            "Losses of different objectives are different quantities: compare their shapes, not"
            " their values.",
            CURVES,
            {"monitor": "loss", "label": "Loss (nats)"},
        )
    ]
    has_classes = study.two_views or study.provided.get("known matches")
    groups = GROUPS if has_classes and not study.two_views else study.class_groups
    if any(
        objective.SUBTRACTS and any(values_of(objective.class_probability))
        for objective in study.objectives.values()
    ):
        drawings.append(
            Drawing(
                "share_at_bound",
                by_objective,
                "Fraction of anchors at the bound",
                "An anchor at the bound gets no gradient from its negatives: the objective has"
                " switched it off.",
                CURVES,
                {
                    "monitor": "share at bound",
                    "label": "Anchors at the bound (%)",
                    "groups": groups,
                    "factor": 100,
                },
            )
        )
    if not study.two_views:
        drawings.append(
            Drawing(
                "positive_similarity",
                by_objective,
                "Similarity of the training pairs",
                "Mean over an epoch; the closer the pairs, the more a debiased loss subtracts and"
                " the more anchors reach the bound.",
                CURVES,
                {"monitor": "similarity of pairs", "label": "Similarity of a pair"},
            )
        )
    if not has_classes:
        return drawings
    options: dict[str, Any] = {"groups": study.class_groups}
    # these compare many methods, of which only those with an η estimate this mean
    if not study.two_views:
        with_eta = [
            name
            for name, objective in study.objectives.items()
            if hasattr(objective, "class_probability")
        ]
        options["families"] = (study.primary.baseline, *with_eta)
    return [
        *drawings,
        Drawing(
            "same_class_ratio",
            by_objective,
            "Similarity to samples of the same class relative to the positive",
            "Mean of exp(similarity) to samples of the same class, divided by that to the positive."
            " Debiased losses assume 1; where the ratio is lower, they subtract more than the mass"
            " of the false negatives.",
            CURVES,
            {
                "monitor": "same-class to positive ratio",
                "label": "Same-class / positive",
                "groups": study.class_groups,
                "reference": 1,
            },
        ),
        Drawing(
            "true_negative_mean",
            true_negative_mean,
            "Mean over true negatives, estimated and true",
            "Each objective's estimate of the mean of exp(similarity) over an anchor's true"
            " negatives, and the true mean according to the labels.",
            CURVES,
            options,
        ),
    ]


def by_objective(
    gathered: Gathered,
    monitor: str,
    label: str,
    groups: Sequence[str] = ("",),
    factor: float = 1.0,
    reference: float | None = None,
) -> Figure:
    """Draw one line per objective, in one panel per data set or, with several groups of classes,
    per data set and group.
    """
    means = over_seeds(gathered.curves, [monitor], groups)
    means[["shown", "low", "high"]] *= factor
    by, title = (["dataset", "group"], "{}, {} classes") if len(groups) > 1 else (["dataset"], "{}")
    styles = line_styles(gathered.curves["objective"])
    note = gathered.note_on({*means["dataset"]}, {*means["objective"]})
    figure = by_epoch(means, by, title, "objective", styles, label, note)
    if reference is not None:
        for plot in figure.axes:
            plot.axhline(reference, color="0.1", linewidth=1)
    return figure


def true_negative_mean(
    gathered: Gathered, groups: Sequence[str] = GROUPS, families: Sequence[str] | None = None
) -> Figure:
    """Plot each objective's estimate of the mean e^s over true negatives, and the true value.

    With several groups of classes, there is one panel per group and objective on the primary data
    set; else, per data set and objective. `families` names the objectives to show, whatever their
    variant; None: all.
    """
    curves = gathered.curves
    if len(groups) > 1:
        curves = curves[curves["dataset"] == gathered.dataset]
    if families is not None:
        curves = curves[curves["objective"].str.partition(",")[0].isin(families)]
    means = over_seeds(curves, list(MEANS), groups)
    estimating = means.loc[means["monitor"] == "estimated mean", "objective"]
    means = means[means["objective"].isin(estimating)].sort_values("group", kind="stable")
    note = gathered.note_on({*means["dataset"]}, {*means["objective"]})
    by, title = "dataset", "{1}\n{0}"
    if len(groups) > 1:
        by, title = "group", "{1}\n{0} classes"
        note = f"Data set: {gathered.dataset}. {note}"
    return by_epoch(
        means, [by, "objective"], title, "monitor", MEANS, "Mean of exp(similarity)", note
    )


def over_seeds(curves: DataFrame, monitors: Sequence[str], groups: Sequence[str]) -> DataFrame:
    """Compute the mean and t interval over seeds for each objective, monitor, group of classes and
    epoch with values.
    """
    parts = []
    for monitor, group in itertools.product(monitors, groups):
        part = curves.reindex(columns=[*KEYS, f"{monitor} {group}".strip()])
        part = part.set_axis([*KEYS, "value"], axis=1)
        parts.append(part.assign(monitor=monitor, group=group))
    values = pd.concat(parts).dropna(subset="value")
    by_epoch: Any = values.groupby([*KEYS, "monitor", "group"], sort=False)["value"]
    aggregated = {"seeds": "count", "shown": "mean", "standard deviation": "std"}
    return add_interval(by_epoch.agg(**aggregated).reset_index(), "shown")


def last_epoch(curves: DataFrame) -> DataFrame:
    """Return the last epoch of each run."""
    return curves[curves["epoch"] == curves.groupby("run")["epoch"].transform("max")]


def by_epoch(
    means: DataFrame,
    by: Sequence[str],
    title: str,
    line: str,
    styles: Styles,
    label: str,
    note: str,
) -> Figure:
    """Draw lines with bands."""
    from matplotlib.ticker import MaxNLocator

    figure, parts = facets(
        means,
        *by,
        size=(2.8, 2.4),
        share=len(by) > 1,
        title=title,
        xlabel="Epoch",
        ylabel=label,
        empty="No objective of this study has these values.",
    )
    shown = styles_of(means[line], styles)
    peaks = means.groupby([*by, line])["shown"].max()
    is_wide = peaks.max() > MOST_LINEAR * peaks[peaks > 0].min()
    least = means["shown"].min()
    for plot, _, part in parts:
        draw_intervals(plot, part, shown, by=line, x="epoch", band=True, markersize=4.5)
        # few markers, staggered so that they do not overlap
        for place, drawn in enumerate(plot.lines):
            spacing = max(1, np.size(drawn.get_xdata()) // 6)
            drawn.set_markevery((place * spacing // len(shown), spacing))
        plot.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        if is_wide and least > 0:
            plot.set_yscale("log")
        elif is_wide:
            plot.set_yscale("symlog", linthresh=peaks[peaks > 0].min())
        if is_wide:  # a band may reach below zero
            plot.set_ylim(bottom=min(least / 2, 2 * least))
    add_legend(figure, shown)
    return finish(figure, interval_note(None, means["seeds"], "Bands"), note)

"""Figures of what happens while a model trains: the loss, and the monitors that may explain a result.

All read one table with a row an epoch of a run: ``study``, ``dataset``, ``objective``, ``seed``, ``epoch``,
and a column a monitor. A monitor that an objective does not have is NaN there, and its line is left out.
"""

from collections.abc import Sequence

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trueneg.report.drawing import (
    STYLE,
    LineStyle,
    add_legend,
    finish,
    legend_handle,
    line_styles,
    panels,
    say_empty,
)
from trueneg.report.labels import INTERVAL, seed_count
from trueneg.stats.comparison import half_interval

GROUPS = ("common", "rare")


@matplotlib.rc_context(STYLE)
def training_curves(curves: pd.DataFrame, note: str = "") -> Figure:
    """Loss by epoch, one line an objective, one panel a data set.

    Args:
        curves: a row an epoch of a run, with the column ``loss`` (nats).
        note: printed in the footnote.
    """
    datasets = list(dict.fromkeys(curves["dataset"]))
    columns = min(len(datasets), 3)
    lines = -(-len(datasets) // columns)
    figure, axes = panels(lines, columns, width=max(6.4, 3.2 * columns), height=1.2 + 2.7 * lines)
    for plot in axes.flat[len(datasets) :]:
        plot.set_axis_off()
    for plot, dataset in zip(axes.flat, datasets, strict=False):
        _draw(plot, curves, dataset, "loss")
        plot.set_title(dataset)
    for plot in axes[:, 0]:
        plot.set_ylabel("Loss (nats)")
    about = "Losses of different objectives are different quantities: compare shapes, not heights."
    return _finish(figure, curves, ["loss"], [about, note], "Loss by epoch")


@matplotlib.rc_context(STYLE)
def share_at_bound(curves: pd.DataFrame, note: str = "") -> Figure:
    """Share of anchors whose true-negative mass is held at its lower bound, for common and for rare classes.

    An anchor at the bound gets no gradient from its negatives: it is switched off.

    Args:
        curves: a row an epoch of a run, with the columns ``share at bound common`` and
            ``share at bound rare``, in [0, 1].
        note: printed in the footnote.
    """
    about = "An anchor at the bound gets no gradient from its negatives."
    label = "Anchors at the bound (%)"
    return _by_group(curves, "share at bound", label, [about, note], "Share of anchors at the bound by epoch", factor=100)


@matplotlib.rc_context(STYLE)
def same_class_ratio(curves: pd.DataFrame, note: str = "") -> Figure:
    """Mean e^s over other images of the anchor's class, divided by e^s of its positive.

    Debiasing takes the ratio to be 1; below, it subtracts more than the false negatives weigh.

    Args:
        curves: a row an epoch of a run, with ``same-class to positive ratio common`` and ``… rare``.
        note: printed in the footnote.
    """
    about = "Mean of exp(similarity) to images of the same class, over that to the positive; debiasing assumes 1."
    title = "Same-class to positive ratio by epoch"
    return _by_group(curves, "same-class to positive ratio", "Same-class / positive", [about, note], title, line=1.0)


@matplotlib.rc_context(STYLE)
def true_negative_mean(curves: pd.DataFrame, dataset: str, note: str = "") -> Figure:
    """Mean of e^s over the true negatives as an objective estimates it, beside its true value.

    Args:
        curves: a row an epoch of a run, with ``estimated mean common``, ``true mean common``, and the same
            for ``rare``.
        dataset: which data set.
        note: printed in the footnote.
    """
    curves = curves[curves["dataset"] == dataset]
    kinds = {
        "estimated mean": LineStyle("#0072b2", "o", "-"),
        "true mean": LineStyle("#d55e00", "s", (0, (5, 1.5))),
    }
    columns = [f"{kind} {group}" for kind in kinds for group in GROUPS]
    measured = curves.reindex(columns=[f"estimated mean {group}" for group in GROUPS]).notna().any(axis=1)
    objectives = list(dict.fromkeys(curves.loc[measured, "objective"]))
    figure, axes = panels(
        len(GROUPS),
        max(1, len(objectives)),
        width=max(6.4, 2.3 * len(objectives) + 0.6),
        height=5.0,
        share=True,
    )
    for line, group in zip(axes, GROUPS, strict=True):
        line[0].set_ylabel(f"Mean of exp(similarity)\n{group} classes")
        for plot, objective in zip(line, objectives, strict=False):
            of_objective = curves[curves["objective"] == objective]
            for kind, style in kinds.items():
                _draw(plot, of_objective, dataset, f"{kind} {group}", styles={objective: style})
            plot.set_title(objective if group == GROUPS[0] else "")
            plot.set_xlabel("" if group == GROUPS[0] else "Epoch")
        if not objectives:
            say_empty(line[0], "No objective of this study estimates the true-negative mean.")
    about = f"{dataset}: the mean over an anchor's true negatives, as the objective estimates it and as it is."
    handles, names = (
        [legend_handle(style) for style in kinds.values()],
        ["estimated", "true (from the labels)"],
    )
    return _finish(figure, curves, columns, [about, note], "Estimated and true mean by epoch", (handles, names))


def _by_group(
    curves: pd.DataFrame,
    monitor: str,
    label: str,
    sentences: Sequence[str],
    title: str,
    line: float | None = None,
    factor: float = 1.0,
) -> Figure:
    """One panel a data set and class group."""
    datasets = list(dict.fromkeys(curves["dataset"]))
    figure, axes = panels(len(datasets), 2, width=7.2, height=1.2 + 2.5 * len(datasets), share=True)
    for row, dataset in zip(axes, datasets, strict=True):
        for plot, group in zip(row, GROUPS, strict=True):
            _draw(plot, curves, dataset, f"{monitor} {group}", factor)
            plot.set_title(f"{dataset}, {group} classes")
            if line is not None:
                plot.axhline(line, color="0.1", linewidth=1)
            if dataset != datasets[-1]:
                plot.set_xlabel("")
        row[0].set_ylabel(label)
    return _finish(figure, curves, [f"{monitor} {group}" for group in GROUPS], sentences, title)


def _over_seeds(curves: pd.DataFrame, column: str) -> pd.DataFrame:
    """Mean and t interval over seeds, by objective and epoch."""
    values = curves.groupby(["objective", "epoch"], sort=False)[column]
    found = values.agg(seeds="count", mean="mean", deviation="std").reset_index().dropna(subset=["mean"])
    half = half_interval(found["deviation"], found["seeds"])
    return found.assign(low=found["mean"] - half, high=found["mean"] + half)


def _draw(
    plot: Axes,
    curves: pd.DataFrame,
    dataset: str,
    column: str,
    factor: float = 1.0,
    styles: dict[str, LineStyle] | None = None,
) -> None:
    """One line an objective with its band; markers are few and never above each other."""
    styles = styles or line_styles(curves["objective"])
    of_dataset = curves[curves["dataset"] == dataset]
    found = _over_seeds(of_dataset, column) if column in curves.columns else pd.DataFrame(columns=["objective"])
    if found.empty:
        say_empty(plot, f"No objective has a value of '{column}'.")
        return
    for place, (name, style) in enumerate(styles.items()):
        line = found[found["objective"] == name].sort_values("epoch")
        if line.empty:
            continue
        spacing = max(1, len(line) // 6)
        plot.plot(
            line["epoch"],
            line["mean"] * factor,
            color=style.color,
            marker=style.marker,
            linestyle=style.linestyle,
            markevery=(place * spacing // len(styles), spacing),
            markersize=4.5,
            label=name,
        )
        plot.fill_between(
            line["epoch"],
            line["low"] * factor,
            line["high"] * factor,
            color=style.color,
            alpha=0.16,
            linewidth=0,
        )
    plot.set_xlabel("Epoch")
    plot.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _finish(
    figure: Figure,
    curves: pd.DataFrame,
    columns: Sequence[str],
    sentences: Sequence[str],
    title: str,
    legend: tuple[list, list[str]] | None = None,
) -> Figure:
    styles = line_styles(curves["objective"])
    shown = [name for name in styles if any(_last(curves, name, column) for column in columns)]
    handles, names = legend or ([legend_handle(styles[name]) for name in shown], shown)
    if shown:
        add_legend(figure, handles, names)
    seeds = seed_count(curves.groupby(["dataset", "objective"])["seed"].nunique())
    values = "; ".join(text for name in shown for column in columns if (text := _last(curves, name, column)))
    description = f"{title}. At the last epoch, mean over seeds: {values}." if values else f"{title}: no values."
    return finish(figure, [*sentences[:1], f"Bands: {INTERVAL} ({seeds}).", *sentences[1:]], description)


def _last(curves: pd.DataFrame, objective: str, column: str) -> str:
    """The values of an objective at its last epoch, in words; empty if it has none."""
    if column not in curves.columns:
        return ""
    measured = curves[(curves["objective"] == objective) & curves[column].notna()]
    at_end = measured[measured["epoch"] == measured["epoch"].max()].groupby("dataset", sort=False)[column].mean()
    return "; ".join(f"{objective}, {dataset}, {column} {value:.3g}" for dataset, value in at_end.items())

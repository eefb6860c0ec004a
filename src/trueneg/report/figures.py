"""The figures of a study: accuracies with their paired differences, and embeddings.

Each takes tidy tables and returns a matplotlib figure, which :func:`trueneg.report.drawing.save` writes.
Error bars are intervals over seeds; where objectives are compared, the paired difference is the figure to
believe.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from trueneg.report.drawing import (
    STYLE,
    LineStyle,
    add_legend,
    finish,
    legend_handle,
    line_styles,
    panels,
)
from trueneg.report.labels import (
    INTERVAL,
    PAIRED_INTERVAL,
    axis_label,
    difference_label,
    measurement_name,
    seed_count,
)
from trueneg.report.metrics import evaluation_name, group_name, metric_name, scale, unit, written
from trueneg.stats.comparison import means, paired_differences
from trueneg.stats.measurement import Measurement, measurements


class ConditionAxis(NamedTuple):
    """What data sets or conditions are placed along: label, whether by logarithm, and how a place is written."""

    label: str
    logarithmic: bool = False
    percent: bool = False


FRACTION_AXIS = ConditionAxis("Imbalance r: share of the rare classes' training images that is kept")
LABELS_AXIS = ConditionAxis("Share of labels", logarithmic=True, percent=True)
NEGATIVES_AXIS = ConditionAxis("Number of negatives N of an anchor", logarithmic=True)


@matplotlib.rc_context(STYLE)
def accuracy_by_condition(
    rows: pd.DataFrame,
    places: Mapping[str, float],
    measured: Measurement,
    baseline: str | None = None,
    split: str = "test",
    axis: ConditionAxis = FRACTION_AXIS,
    note: str = "",
) -> Figure:
    """Accuracy against what differs between data sets, one line per objective.

    With the imbalance r it is sample-specific debiasing's Fig. 2, left; with N it is BCL's Table 1.

    Args:
        rows: tidy rows.
        places: where each data set's label stands on the axis, such as its r; others are left out.
        measured: which measurement.
        baseline: where one is given, differences to it within each seed are drawn, and it is the zero line.
        split: which split.
        axis: what the places are.
        note: printed in the footnote.

    Raises:
        ValueError: if there are no such rows.
    """
    chosen = _measured(_rows(rows, dataset=list(places), split=[split]), measured)
    found = _compared(chosen, baseline).assign(x=lambda table: table["dataset"].map(places))
    return _lines(found, rows, axis, measurement_name(measured, split), note, baseline)


@matplotlib.rc_context(STYLE)
def accuracy_by_label_fraction(
    rows: pd.DataFrame,
    dataset: str,
    measured: Measurement,
    baseline: str | None = None,
    split: str = "test",
    note: str = "",
) -> Figure:
    """Accuracy against the share of labels, one line per objective (the same figure, right).

    Args:
        rows: tidy rows.
        dataset: which data set.
        measured: which measurement, at any fraction.
        baseline: as for :func:`accuracy_by_condition`.
        split: which split.
        note: printed in the footnote.

    Raises:
        ValueError: if there are no such rows.
    """
    chosen, measured = _rows(rows, dataset=[dataset], split=[split]), measured._replace(fraction=None)
    chosen = chosen[chosen["fraction"].notna()]
    chosen = chosen.loc[_measured(chosen.assign(fraction=np.nan), measured).index]
    found = _compared(chosen, baseline).assign(x=lambda table: table["fraction"])
    return _lines(found, rows, LABELS_AXIS, measurement_name(measured, split, dataset), note, baseline)


@matplotlib.rc_context(STYLE)
def class_accuracy(
    rows: pd.DataFrame,
    dataset: str,
    baseline: str,
    measured: Measurement,
    groups: Sequence[str | None] = (None, "common", "rare"),
    split: str = "test",
    note: str = "",
) -> Figure:
    """Who gains: paired differences on all, common and rare classes, a row of dots with intervals an objective.

    Args:
        rows: tidy rows.
        dataset: which data set.
        baseline: the objective that is subtracted.
        measured: which accuracy, of any group.
        groups: one kind of dot each.
        split: which split.
        note: printed in the footnote.

    Raises:
        ValueError: if there are no such rows.
    """
    chosen = _rows(rows, dataset=[dataset], split=[split])
    found = paired_differences(_measured(chosen, *(measured._replace(group=group) for group in groups)), baseline)
    wanted = measurements(found)  # without rare classes there is one
    objectives = list(dict.fromkeys(found["objective"]))
    metric, styles = measured.metric, line_styles(wanted)
    figure, axes = panels(height=1.7 + 0.62 * len(objectives))
    plot = axes[0, 0]
    plot.axvline(0, color="0.1", linewidth=1)
    offsets = np.linspace(-0.22, 0.22, len(wanted)) if len(wanted) > 1 else [0.0]
    for one, offset in zip(wanted, offsets, strict=True):
        of_group = one.rows_of(found).set_index("objective").reindex(objectives)
        plot.errorbar(
            of_group["difference"] * scale(metric),
            np.arange(len(objectives)) + offset,
            xerr=_error(of_group, metric),
            color=styles[one].color,
            marker=styles[one].marker,
            linestyle="none",
            label=metric_name(one),
        )
    plot.set_yticks(range(len(objectives)), objectives)
    plot.set_ylim(len(objectives) - 0.5, -0.5)
    plot.grid(axis="y", visible=False)
    plot.tick_params(axis="y", length=0)
    plot.set_xlabel(f"Accuracy minus that of {baseline} ({unit(metric, difference=True)}); right of the line: better")
    add_legend(figure, [legend_handle(styles[one], line=False) for one in wanted], list(map(group_name, wanted)))
    what = measurement_name(measured, split, dataset)
    about = f"{what}. Bars: {PAIRED_INTERVAL} ({seed_count(found['seeds'])})."
    values = "; ".join(
        f"{row['objective']} {metric_name(Measurement.of(row))} {_value(row, 'difference')}" for _, row in found.iterrows()
    )
    return finish(figure, [about, note], f"Differences to {baseline} with intervals, {what}: {values}.")


@matplotlib.rc_context(STYLE)
def embedding(
    coordinates: pd.DataFrame,
    dataset: str,
    objectives: Sequence[str],
    class_names: Mapping[int, str] | None = None,
    note: str = "",
) -> Figure:
    """Images in two dimensions, a panel an objective: rare classes in reds, common in blues (Fig. 4).

    Args:
        coordinates: one row an image and objective, with the columns ``dataset``, ``objective``, ``x``,
            ``y``, ``label`` and ``rare`` (bool).
        dataset: which data set.
        objectives: one panel each, in this order.
        class_names: what labels are called in the legend; the labels themselves by default.
        note: printed in the footnote.

    Raises:
        ValueError: if there are no such rows.
    """
    chosen = _rows(coordinates, dataset=[dataset], objective=list(objectives))
    classes = chosen[["label", "rare"]].drop_duplicates().sort_values(["rare", "label"])
    styles = _class_styles(classes)
    columns = min(len(objectives), 3)
    lines = -(-len(objectives) // columns)
    figure, axes = panels(lines, columns, width=2.5 * columns + 1.4, height=2.45 * lines + 0.8)
    for plot in axes.flat[len(objectives) :]:
        plot.set_axis_off()
    for plot, objective in zip(axes.flat, objectives, strict=False):
        of_objective = chosen[chosen["objective"] == objective]
        for label, (color, marker) in styles.items():
            points = of_objective[of_objective["label"] == label]
            # Rasterised: thousands of markers would make the PDF slow to open.
            plot.scatter(
                points["x"],
                points["y"],
                s=11,
                color=color,
                marker=marker,
                linewidths=0,
                alpha=0.85,
                rasterized=True,
            )
        plot.set_title(objective)
        plot.set_xticks([])
        plot.set_yticks([])
        plot.set_box_aspect(1)
        for spine in plot.spines.values():
            spine.set_visible(True)
    names = class_names or {}
    handles = [Line2D([], [], color=color, marker=marker, linestyle="none") for color, marker in styles.values()]
    texts = [f"{names.get(row['label'], row['label'])}{' (rare)' if row['rare'] else ''}" for _, row in classes.iterrows()]
    figure.legend(handles, texts, loc="outside right upper", handletextpad=0.2)
    images = chosen.groupby("objective").size().max()
    about = (
        f"t-SNE of {images:,} images of {dataset}, one seed; reds are rare classes, blues common ones. "
        "The axes have no unit, and distances between clusters no meaning."
    )
    shown = f"{len(classes)} classes, of which {int(classes['rare'].sum())} rare, {', '.join(objectives)}"
    return finish(figure, [about, note], f"Scatter plots of {dataset} in two dimensions: {shown}.")


def _rows(table: pd.DataFrame, **wanted: Sequence) -> pd.DataFrame:
    """The rows whose columns hold one of the wanted values."""
    for column, values in wanted.items():
        kept = table[table[column].isin(values)]
        if kept.empty:
            found = "; ".join(sorted(map(str, table[column].unique()))) or "none"
            raise ValueError(f"There is nothing to draw for {column} {', '.join(map(str, values))}; found {found}.")
        table = kept
    return table


def _measured(table: pd.DataFrame, *wanted: Measurement) -> pd.DataFrame:
    """The rows of some measurements, at least one of which must be there."""
    found = pd.concat([one.rows_of(table) for one in wanted])
    if found.empty:
        known = "; ".join(f"{evaluation_name(one)}, {metric_name(one)}" for one in measurements(table)) or "none"
        raise ValueError(f"There is nothing to draw for {evaluation_name(wanted[0])}, {metric_name(wanted[0])}; found {known}.")
    return found


def _compared(rows: pd.DataFrame, baseline: str | None) -> pd.DataFrame:
    return means(rows) if baseline is None else paired_differences(rows, baseline)


def _lines(
    found: pd.DataFrame, rows: pd.DataFrame, axis: ConditionAxis, what: str, note: str, baseline: str | None = None
) -> Figure:
    """Mean (or, with a baseline, mean difference) against the column ``x``, with intervals."""
    column, measured = ("difference" if baseline else "mean"), Measurement.of(found.iloc[0])
    styles = line_styles(rows["objective"])
    objectives = [name for name in styles if name in set(found["objective"])]
    figure, axes = panels()
    plot = axes[0, 0]
    for place, name in enumerate(objectives):
        line = found[found["objective"] == name].sort_values("x")
        shift = 3.2 * (place - (len(objectives) - 1) / 2)
        _points(plot, line, column, measured.metric, styles[name], name, shift)
    handles, names = [legend_handle(styles[name]) for name in objectives], list(objectives)
    if baseline:
        zero = plot.axhline(0, color=styles[baseline].color, linewidth=1)
        handles, names = [zero, *handles], [f"{baseline} (zero line)", *names]
    add_legend(figure, handles, names)
    _place_ticks(plot, sorted(found["x"].unique()), axis)
    label = difference_label(measured, baseline) if baseline else axis_label(measured)
    plot.set_ylabel(label)
    interval = PAIRED_INTERVAL if baseline else INTERVAL
    about = f"{what}. Bars: {interval} ({seed_count(found['seeds'])})."
    values = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{_value(row, column)} at {row['x']:g}" for _, row in found[found["objective"] == name].sort_values("x").iterrows()
        )
        for name in objectives
    )
    return finish(figure, [about, note], f"{' '.join(label.split())} against {axis.label}. {values}.")


def _points(plot: Axes, line: pd.DataFrame, column: str, metric: str, style: LineStyle, name: str, shift: float) -> None:
    # Shifted by points of the page, not in the data: error bars at the same x stay apart on every axis.
    beside = plot.transData + ScaledTranslation(shift / 72, 0, plot.figure.dpi_scale_trans)
    container = plot.errorbar(
        line["x"],
        line[column] * scale(metric),
        yerr=_error(line, metric, column),
        color=style.color,
        marker=style.marker,
        linestyle=style.linestyle,
        elinewidth=1,
        label=name,
    )
    for artist in container.get_children():
        artist.set_transform(beside)


def _error(table: pd.DataFrame, metric: str, column: str = "difference") -> np.ndarray:
    """Half the interval; one seed has none, and draws no bar."""
    return ((table["high"] - table[column]) * scale(metric)).to_numpy()


def _value(row: pd.Series, column: str) -> str:
    metric, signed = row["metric"], column == "difference"
    text = f"{written(row[column], metric, signed)} {unit(metric, difference=signed)}".strip()
    return f"{text} [{written(row['low'], metric, signed)}, {written(row['high'], metric, signed)}]"


def _place_ticks(plot: Axes, values: Sequence[float], axis: ConditionAxis) -> None:
    """Ticks where there are measurements, and nowhere else."""
    if axis.logarithmic:
        plot.set_xscale("log")
    plot.xaxis.set_major_locator(FixedLocator(values))
    plot.xaxis.set_minor_locator(NullLocator())
    plot.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %" if axis.percent else f"{value:g}")
    plot.set_xlabel(axis.label)
    plot.margins(x=0.06)


def _class_styles(classes: pd.DataFrame) -> dict:
    """(colour, marker) of each class: common ones blue and round or square, rare ones red and pointed."""
    styles = {}
    for rare, palette, markers in ((False, "Blues", "osDphH8d"), (True, "Reds", "^v<>*PX1")):
        labels = classes.loc[classes["rare"] == rare, "label"].tolist()
        shades = matplotlib.colormaps[palette](np.linspace(0.95, 0.42, len(labels)))
        for place, (label, shade) in enumerate(zip(labels, shades, strict=True)):
            styles[label] = (tuple(shade), markers[place % len(markers)])
    return styles

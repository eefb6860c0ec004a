"""Panels, lines with intervals and forest plots; the intervals are computed by
:mod:`trueneg.stats`.

seaborn draws distributions and scatter plots. Its line plots would compute intervals from the rows,
without pairing over seeds.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pandas import DataFrame

from trueneg.report.drawing import Axes, Figure, LineStyle, Styles, draw_message, panels
from trueneg.report.labels import INTERVAL, PAIRED_INTERVAL, seed_count
from trueneg.report.metrics import full_name
from trueneg.stats.comparison import means, paired_differences
from trueneg.stats.measurement import Measurement, measurements

BAND = "Bands: 95\u00a0% Monte-Carlo intervals."


class Axis(NamedTuple):
    """Horizontal axis for a varied parameter: its label, whether it is logarithmic, and whether
    ticks are in percent.
    """

    label: str
    logarithmic: bool = False
    percent: bool = False


def facets(
    table: DataFrame,
    *by: str,
    size: tuple[float, float],
    columns: int | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    share: bool | Literal["col"] = False,
    empty: str = "No data to draw.",
) -> tuple[Figure, list[tuple[Axes, tuple, DataFrame]]]:
    """Create a figure with one panel per value of a column, or per pair of values of two columns.

    Args:
        table: data to draw; panels follow the order in which their values appear in it.
        by: one or two columns of the table; with two, the first gives the rows of panels and the
            second the columns.
        size: width and height of a panel in inches.
        columns: number of panels per row; None means at most three, or one per value of the second
            column.
        title: format string for the title of each panel, filled with its values.
        xlabel: label below the last panel of each column.
        ylabel: label beside the first panel of each row.
        share: whether all panels have the same limits; with ``"col"``, only the panels of a column
            do.
        empty: text shown in panels without rows.

    Returns:
        The figure, and the axes, values and rows of each panel that has rows.
    """
    values = [list(dict.fromkeys(table[name])) for name in by]
    places = list(itertools.product(*values))
    parts = dict(list(table.groupby(list(by), observed=True)))
    columns = min(columns or (3 if len(by) == 1 else len(values[1])), len(places)) or 1
    rows = -(-len(places) // columns) or 1
    figure, axes = panels(rows, columns, max(6.4, size[0] * columns), 1.3 + size[1] * rows, share)
    drawn = []
    for number, (plot, place) in enumerate(zip(axes.flat, places, strict=False)):
        plot.set(title=title.format(*place), ylabel="" if number % columns else ylabel)
        if number + columns >= len(places):
            plot.set_xlabel(xlabel)
        elif share:
            plot.tick_params(labelbottom=False)
        if place in parts:
            drawn.append((plot, place, parts[place]))
        else:
            draw_message(plot, empty)
    for plot in axes.flat[len(places) :]:
        plot.set_axis_off()
    if not places:
        draw_message(axes[0, 0], empty)
    return figure, drawn


def draw_intervals(
    plot: Axes,
    table: DataFrame,
    styles: Styles,
    by: str = "objective",
    x: str = "x",
    y: str = "shown",
    factor: float = 1.0,
    band: bool = False,
    sideways: bool = False,
    apart: float = 0.0,
    **look: Any,
) -> None:
    """Draw one line per style, with intervals as bars or as a band.

    Args:
        plot: axes to draw on.
        table: one row per point, with the columns `by`, `x`, `y`, ``low`` and ``high``; points
            whose ends are NaN have no interval.
        styles: style of each line, by the value of `by` in its rows.
        by: column that assigns the rows to lines.
        x: column with the positions along the axis.
        y: column with the values.
        factor: factor by which values and interval ends are multiplied.
        band: whether to draw the interval as a band instead of bars.
        sideways: whether values are drawn along the horizontal axis, as in a forest plot.
        apart: offset in typographic points between consecutive lines, which separates bars at the
            same position.
        look: further properties of the lines and bars.
    """
    from matplotlib.transforms import ScaledTranslation

    for number, (name, style) in enumerate(styles.items()):
        line = table[table[by] == name].dropna(subset=y).sort_values(x)
        places, values, low, high = line[[x, y, "low", "high"]].to_numpy(float).T
        values = factor * values
        low = factor * low
        high = factor * high
        look_of_line = {**style._asdict(), "label": name} | look
        if band:
            plot.plot(places, values, **look_of_line)
            plot.fill_between(places, low, high, color=style.color, alpha=0.16, linewidth=0)
            continue
        reach = np.abs([values - low, high - values])
        shift = apart / 72 * (number - (len(styles) - 1) / 2)
        if sideways:
            drawn = plot.errorbar(values, places, xerr=reach, elinewidth=1, **look_of_line)
            move = ScaledTranslation(0, -shift, plot.figure.dpi_scale_trans)
        else:
            drawn = plot.errorbar(places, values, yerr=reach, elinewidth=1, **look_of_line)
            move = ScaledTranslation(shift, 0, plot.figure.dpi_scale_trans)
        drawn.lines[0].set_label(name)  # matplotlib labels only the container
        for artist in drawn.get_children():
            artist.set_transform(plot.transData + move)


def draw_sampled(
    plot: Axes,
    table: DataFrame,
    styles: Styles,
    by: str,
    x: str,
    y: str = "value",
    **drawn: Any,
) -> None:
    """Draw one line per style with Monte-Carlo intervals of ±1.96 standard errors, by default as
    bands.
    """
    reach = 1.96 * table["standard error"]
    table = table.assign(low=table[y] - reach, high=table[y] + reach)
    draw_intervals(plot, table, styles, by, x, y, **{"band": True} | drawn)


def forest(
    plot: Axes,
    table: DataFrame,
    styles: Styles,
    by: str,
    names: Sequence[str],
    row: str,
    **drawn: Any,
) -> None:
    """Draw a forest plot: one row per name with one dot and interval per style.

    Args:
        plot: axes to draw on.
        table: one row per dot, with the columns `by`, `row`, ``low`` and ``high``; rows of the plot
            without a dot stay empty.
        styles: style of the dots, by the value of `by`.
        by: column that assigns dots to styles.
        names: names of the rows, from top to bottom.
        row: column that assigns dots to rows.
        drawn: further arguments of :func:`draw_intervals`.
    """
    places = {name: place for place, name in enumerate(names)}
    placed = table.assign(place=table[row].map(places)).dropna(subset="place")
    draw_intervals(plot, placed, styles, by, x="place", sideways=True, linestyle="none", **drawn)
    plot.set_yticks(range(len(names)), names)
    plot.set_ylim(len(names) - 0.5, -0.5)
    plot.grid(axis="y", visible=False)
    plot.tick_params(axis="y", length=0)


def set_ticks(plot: Axes, values: Sequence[float], axis: Axis) -> None:
    """Label an axis, and place the ticks of a logarithmic one only at the measured values."""
    if axis.logarithmic:
        plot.set_xscale("log")
        plot.set_xticks(
            values, [f"{100 * value:g} %" if axis.percent else f"{value:g}" for value in values]
        )
        plot.set_xticks([], minor=True)
    plot.set_xlabel(axis.label)
    plot.margins(x=0.06)


def shown_values(rows: DataFrame, baseline: str | None, measured: Measurement) -> DataFrame:
    """Compute the means of a measurement, or its paired differences from the baseline if one is
    given, as ``shown``.
    """
    chosen = measured.rows_of(rows)
    if chosen.empty:
        raise ValueError(
            f"There is nothing to draw for {full_name(measured)}; found"
            f" {'; '.join(map(full_name, measurements(rows))) or 'none'}."
        )
    if baseline is None:
        return means(chosen).rename(columns={"mean": "shown"})
    return paired_differences(chosen, baseline).rename(columns={"difference": "shown"})


def zero_line(plot: Axes, baseline: str | None, styles: Styles) -> dict[str, LineStyle]:
    """Draw the baseline of paired differences as a line at zero, and return its legend entry; none
    for means.
    """
    if baseline is None:
        return {}
    plot.axhline(0, color=styles[baseline].color, linewidth=1)
    return {f"{baseline} (zero line)": LineStyle(styles[baseline].color, "", "-")}


def interval_note(baseline: str | None, seeds: Iterable[int], what: str = "Bars") -> str:
    """Return the sentence that explains the intervals in a figure."""
    return f"{what}: {PAIRED_INTERVAL if baseline else INTERVAL} ({seed_count(seeds)})."

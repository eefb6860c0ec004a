"""Statistical plots. seaborn draws points and lines; the intervals are computed by :mod:`trueneg.stats`."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trueneg.report.drawing import Axes, Figure, LineStyle, panels, say_empty
from trueneg.report.labels import INTERVAL, PAIRED_INTERVAL, seed_count
from trueneg.report.metrics import evaluation_name, metric_name, with_interval
from trueneg.stats.comparison import means, paired_differences
from trueneg.stats.measurement import Measurement, measurements


class Axis(NamedTuple):
    """Horizontal axis of data sets or conditions: label, logarithmic scale, and tick labels in percent."""

    label: str
    logarithmic: bool = False
    percent: bool = False


def facets(
    table: pd.DataFrame,
    *by: str,
    size: tuple[float, float],
    columns: int | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    share: bool = False,
    empty: str = "There is nothing to draw.",
) -> tuple[Figure, list[tuple[Axes, tuple, pd.DataFrame]]]:
    """Create a figure with one panel per value of a column, or per pair of values of two columns.

    Args:
        table: data to draw; panels follow the order in which their values appear in it.
        by: one or two columns of the table; of two, the first sets the rows of panels and the second the columns.
        size: width and height of a panel in inches.
        columns: number of panels per row; None means at most three, or one per value of the second column.
        title: format string for the title of each panel, filled with its values.
        xlabel: label below the last panel of each column.
        ylabel: label beside the first panel of each row.
        share: whether all panels have the same limits.
        empty: text shown in panels without rows.

    Returns:
        The figure, and the axes, values and rows of each panel that has rows.
    """
    values = [list(dict.fromkeys(table[name])) for name in by]
    places, parts = list(itertools.product(*values)), dict(list(table.groupby(list(by), observed=True)))
    columns = max(1, min(columns or (3 if len(by) == 1 else len(values[1])), len(places)))
    rows = max(1, -(-len(places) // columns))
    figure, axes = panels(rows, columns, max(6.4, size[0] * columns), 1.3 + size[1] * rows, share)
    found = []
    for number, (plot, place) in enumerate(itertools.zip_longest(axes.flat, places)):
        if place is None:
            plot.set_axis_off()
            continue
        last_row = number + columns >= len(places)
        plot.set(title=title.format(*place), xlabel=xlabel if last_row else "", ylabel="" if number % columns else ylabel)
        if share:
            plot.tick_params(labelbottom=last_row)
        if place in parts:
            found.append((plot, place, parts[place]))
        else:
            say_empty(plot, empty)
    if not places:
        say_empty(axes[0, 0], empty)
    return figure, found


def draw_intervals(
    plot: Axes,
    table: pd.DataFrame,
    style: LineStyle,
    x: str = "x",
    y: str = "mean",
    factor: float = 1.0,
    band: bool = False,
    sideways: bool = False,
    shift: float = 0.0,
    capsize: float | None = None,
    label: str | None = None,
    **look: Any,
) -> None:
    """Draw one line with its intervals as bars or as a band.

    Args:
        plot: axes to draw on.
        table: one row per point, with the columns `x`, `y`, ``low`` and ``high``; no interval is drawn where the ends are NaN.
        style: style of the line.
        x: column with the positions along the axis.
        y: column with the values.
        factor: factor by which values and interval ends are multiplied.
        band: whether to draw the interval as a band instead of bars.
        sideways: whether values are drawn along the horizontal axis, as in a forest plot.
        shift: offset to the right in typographic points, which keeps bars at the same position apart on any axis.
        capsize: cap size of the bars in points; None means that of the style.
        label: label of the line.
        look: further properties of the line.
    """
    import seaborn
    from matplotlib.transforms import ScaledTranslation

    table = table.dropna(subset=y).sort_values(x)
    places, values = table[x].to_numpy(float), factor * table[y].to_numpy(float)
    low, high = (factor * table[end].to_numpy(float) for end in ("low", "high"))
    look = {"color": style.color, "marker": style.marker, "linestyle": style.linestyle, "label": label} | look
    before = set(plot.get_children())
    x_values, y_values = (values, places) if sideways else (places, values)
    seaborn.lineplot(
        x=x_values,
        y=y_values,
        ax=plot,
        sort=False,
        estimator=None,
        errorbar=None,
        legend=False,
        markeredgecolor=style.color,
        **look,
    )
    reach = np.abs([values - low, high - values])
    if band:
        plot.fill_between(places, low, high, color=style.color, alpha=0.16, linewidth=0)
    else:
        x_reach, y_reach = (reach, None) if sideways else (None, reach)
        look = {"ecolor": style.color, "elinewidth": 1, "capsize": capsize, "label": label}
        plot.errorbar(x_values, y_values, y_reach, x_reach, fmt="none", **look)
    if shift:
        beside = plot.transData + ScaledTranslation(shift / 72, 0, plot.figure.dpi_scale_trans)
        for artist in set(plot.get_children()) - before:
            artist.set_transform(beside)


def forest(
    plot: Axes,
    groups: Mapping[str, pd.DataFrame],
    styles: Mapping[str, LineStyle],
    names: Sequence[str],
    spread: float = 0.22,
    **drawn: Any,
) -> None:
    """Draw a forest plot: one row per name with one dot and interval per group.

    Args:
        plot: axes to draw on.
        groups: table of each group, by label, with the names as its index; missing names have no dot.
        styles: style of the dots of each group.
        names: names of the rows, from top to bottom.
        spread: offset of the first and last group's dots above and below the row.
        drawn: further arguments of :func:`draw_intervals`.
    """
    offsets = np.linspace(-spread, spread, len(groups)) if len(groups) > 1 else [0.0]
    for (label, table), offset in zip(groups.items(), offsets, strict=True):
        placed = table.reindex(list(names)).assign(place=np.arange(len(names)) + offset)
        draw_intervals(plot, placed, styles[label], x="place", sideways=True, linestyle="none", label=label, **drawn)
    plot.set_yticks(range(len(names)), names)
    plot.set_ylim(len(names) - 0.5, -0.5)
    plot.grid(axis="y", visible=False)
    plot.tick_params(axis="y", length=0)


def place_ticks(plot: Axes, values: Sequence[float], axis: Axis) -> None:
    """Place ticks only at measured values."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if axis.logarithmic:
        plot.set_xscale("log")
    plot.xaxis.set_major_locator(FixedLocator(values))
    plot.xaxis.set_minor_locator(NullLocator())
    plot.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %" if axis.percent else f"{value:g}")
    plot.set_xlabel(axis.label)
    plot.margins(x=0.06)


def compared(rows: pd.DataFrame, baseline: str | None) -> pd.DataFrame:
    """Return the means, or the paired differences from the baseline if given, in the column ``shown``, with their intervals."""
    if baseline is None:
        return means(rows).assign(shown=lambda table: table["mean"])
    return paired_differences(rows, baseline).assign(shown=lambda table: table["difference"])


def draw_zero(plot: Axes, style: LineStyle) -> Any:
    """Draw the zero line of differences, which stands for the baseline."""
    return plot.axhline(0, color=style.color, linewidth=1)


def bars(baseline: str | None, seeds: Iterable[int], what: str = "Bars") -> str:
    """Return a sentence that explains the bars of a figure."""
    return f"{what}: {PAIRED_INTERVAL if baseline else INTERVAL} ({seed_count(seeds)})."


def values_in_words(line: pd.DataFrame, metric: str, signed: bool) -> str:
    """Describe the points of a line for the alternative text."""
    points = (
        f"{with_interval(row['shown'], row['low'], row['high'], metric, signed)} at {row['x']:g}" for _, row in line.iterrows()
    )
    return ", ".join(points)


def rows_where(table: pd.DataFrame, **wanted: Sequence) -> pd.DataFrame:
    """Select the rows whose columns hold one of the wanted values; at least one row must remain."""
    for column, values in wanted.items():
        kept = table[table[column].isin(values)]
        if kept.empty:
            found = "; ".join(sorted(map(str, table[column].unique()))) or "none"
            raise ValueError(f"There is nothing to draw for {column} {', '.join(map(str, values))}; found {found}.")
        table = kept
    return table


def rows_measuring(table: pd.DataFrame, *wanted: Measurement) -> pd.DataFrame:
    """Select the rows of the wanted measurements; at least one of them must be present."""
    found = pd.concat([one.rows_of(table) for one in wanted])
    if found.empty:
        known = "; ".join(f"{evaluation_name(one)}, {metric_name(one)}" for one in measurements(table)) or "none"
        raise ValueError(f"There is nothing to draw for {evaluation_name(wanted[0])}, {metric_name(wanted[0])}; found {known}.")
    return found

"""Statistical plots. seaborn draws points and lines; the intervals around them are those that :mod:`trueneg.stats` computed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from trueneg.report.drawing import LineStyle, add_legend, finish, legend_handle, line_styles, panels
from trueneg.report.labels import INTERVAL, PAIRED_INTERVAL, axis_label, difference_label, measurement_name, seed_count
from trueneg.report.metrics import evaluation_name, metric_name, scale, with_interval
from trueneg.stats.comparison import means, paired_differences
from trueneg.stats.measurement import Measurement, measurements

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Axis(NamedTuple):
    """What data sets or conditions are placed along: label, whether by logarithm, and whether places are written in percent."""

    label: str
    logarithmic: bool = False
    percent: bool = False


def draw_intervals(
    plot: "Axes",
    table: pd.DataFrame,
    style: LineStyle,
    x: str = "x",
    y: str = "mean",
    ends: tuple[str, str] = ("low", "high"),
    factor: float = 1.0,
    band: bool = False,
    sideways: bool = False,
    shift: float = 0.0,
    capsize: float | None = None,
    label: str | None = None,
    **look: Any,
) -> None:
    """One line with its intervals: as bars, or as a band.

    Args:
        plot: where to draw.
        table: a row per point, with the columns `x`, `y` and the interval's `ends`; where these are NaN, no interval is drawn.
        style: of the line.
        x: the column along the axis.
        y: the column that is drawn.
        ends: columns of the interval's ends.
        factor: by what values and ends are multiplied.
        band: whether the interval is a band, not bars.
        sideways: whether values lie along the horizontal axis, as in a forest plot.
        shift: to the right, in points of the page: bars at the same place stay apart on every axis.
        capsize: of bars, in points; None: the style's.
        label: of the line.
        look: further properties of the line.
    """
    import seaborn
    from matplotlib.transforms import ScaledTranslation

    table = table.dropna(subset=y).sort_values(x)
    places, values = table[x].to_numpy(float), factor * table[y].to_numpy(float)
    low, high = (factor * table[end].to_numpy(float) for end in ends)
    look = {"color": style.color, "marker": style.marker, "linestyle": style.linestyle, "label": label} | look
    before = set(plot.get_children())
    seaborn.lineplot(
        x=values if sideways else places,
        y=places if sideways else values,
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
        points = (values, places) if sideways else (places, values)
        error = {"xerr" if sideways else "yerr": reach}
        plot.errorbar(*points, **error, fmt="none", ecolor=style.color, elinewidth=1, capsize=capsize, label=label)
    if shift:
        beside = plot.transData + ScaledTranslation(shift / 72, 0, plot.figure.dpi_scale_trans)
        for artist in set(plot.get_children()) - before:
            artist.set_transform(beside)


def forest(
    plot: "Axes",
    groups: Mapping[str, pd.DataFrame],
    styles: Mapping[str, LineStyle],
    names: Sequence[str],
    spread: float = 0.22,
    **drawn: Any,
) -> None:
    """A forest plot: a row per name, in it a dot with its interval for each group.

    Args:
        plot: where to draw.
        groups: by label, a table with the names as its index; a name that it lacks has no dot there.
        styles: of each group's dots.
        names: of the rows, from the top.
        spread: how far above and below their row the dots of the first and the last group stand.
        drawn: as for :func:`draw_intervals`.
    """
    offsets = np.linspace(-spread, spread, len(groups)) if len(groups) > 1 else [0.0]
    for (label, table), offset in zip(groups.items(), offsets, strict=True):
        placed = table.reindex(names).assign(place=np.arange(len(names)) + offset)
        draw_intervals(plot, placed, styles[label], x="place", sideways=True, linestyle="none", label=label, **drawn)
    plot.set_yticks(range(len(names)), names)
    plot.set_ylim(len(names) - 0.5, -0.5)
    plot.grid(axis="y", visible=False)
    plot.tick_params(axis="y", length=0)


def place_ticks(plot: "Axes", values: Sequence[float], axis: Axis) -> None:
    """Ticks where there are measurements, and nowhere else."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if axis.logarithmic:
        plot.set_xscale("log")
    plot.xaxis.set_major_locator(FixedLocator(values))
    plot.xaxis.set_minor_locator(NullLocator())
    plot.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %" if axis.percent else f"{value:g}")
    plot.set_xlabel(axis.label)
    plot.margins(x=0.06)


def by_place(
    rows: pd.DataFrame,
    measured: Measurement,
    objectives: Sequence[str],
    baseline: str | None,
    axis: Axis,
    note: str,
    dataset: str = "",
) -> "Figure":
    """Means on the test split against the rows' column ``x``, a line per objective; with a baseline, paired differences to it.

    Args:
        rows: tidy rows of the measurement, at least one.
        measured: what they measure.
        objectives: all of the study, which gives each its style.
        baseline: the objective that is subtracted and is the zero line.
        axis: what the column ``x`` is.
        note: printed in the footnote.
        dataset: its label, if all rows are of one.
    """
    places = rows[["dataset", "fraction", "x"]].drop_duplicates()
    found = compared(rows, baseline).merge(places, on=["dataset", "fraction"])
    styles = line_styles(objectives)
    lines = {name: found[found["objective"] == name].sort_values("x") for name in styles if name in set(found["objective"])}
    figure, axes = panels()
    plot = axes[0, 0]
    for place, (name, line) in enumerate(lines.items()):
        shift = 3.2 * (place - (len(lines) - 1) / 2)
        draw_intervals(plot, line, styles[name], y="shown", factor=scale(measured.metric), shift=shift, label=name)
    handles, names = [legend_handle(styles[name]) for name in lines], list(lines)
    if baseline:
        handles, names = [draw_zero(plot, styles[baseline]), *handles], [f"{baseline} (zero line)", *names]
    add_legend(figure, handles, names)
    place_ticks(plot, sorted(found["x"].unique()), axis)
    label = difference_label(measured, baseline) if baseline else axis_label(measured)
    plot.set_ylabel(label)
    about = f"{measurement_name(measured, 'test', dataset)}. {bars(baseline, found['seeds'])}"
    values = "; ".join(f"{name}: {values_in_words(line, measured.metric, bool(baseline))}" for name, line in lines.items())
    return finish(figure, [about, note], f"{' '.join(label.split())} against {axis.label}. {values}.")


def compared(rows: pd.DataFrame, baseline: str | None) -> pd.DataFrame:
    """Means, or with a baseline the paired differences to it, in the column ``shown`` with their intervals."""
    if baseline is None:
        return means(rows).assign(shown=lambda table: table["mean"])
    return paired_differences(rows, baseline).assign(shown=lambda table: table["difference"])


def draw_zero(plot: "Axes", style: LineStyle) -> Any:
    """The baseline of differences."""
    return plot.axhline(0, color=style.color, linewidth=1)


def bars(baseline: str | None, seeds: Sequence[int], what: str = "Bars") -> str:
    """What the bars of a figure are, as a sentence."""
    return f"{what}: {PAIRED_INTERVAL if baseline else INTERVAL} ({seed_count(seeds)})."


def values_in_words(line: pd.DataFrame, metric: str, signed: bool) -> str:
    """The points of a line, for those who cannot see the figure."""
    points = (
        f"{with_interval(row['shown'], row['low'], row['high'], metric, signed)} at {row['x']:g}" for _, row in line.iterrows()
    )
    return ", ".join(points)


def rows_where(table: pd.DataFrame, **wanted: Sequence) -> pd.DataFrame:
    """The rows whose columns hold one of the wanted values, of which there must be some."""
    for column, values in wanted.items():
        kept = table[table[column].isin(values)]
        if kept.empty:
            found = "; ".join(sorted(map(str, table[column].unique()))) or "none"
            raise ValueError(f"There is nothing to draw for {column} {', '.join(map(str, values))}; found {found}.")
        table = kept
    return table


def rows_measuring(table: pd.DataFrame, *wanted: Measurement) -> pd.DataFrame:
    """The rows of some measurements, at least one of which must be there."""
    found = pd.concat([one.rows_of(table) for one in wanted])
    if found.empty:
        known = "; ".join(f"{evaluation_name(one)}, {metric_name(one)}" for one in measurements(table)) or "none"
        raise ValueError(f"There is nothing to draw for {evaluation_name(wanted[0])}, {metric_name(wanted[0])}; found {known}.")
    return found

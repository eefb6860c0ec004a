"""What the figures of the theory share: one style an estimator, lines with their Monte-Carlo bands."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from trueneg.report.drawing import LineStyle, add_legend, legend_handle, line_styles
from trueneg.specs.experiments import ESTIMATORS, TRUE

BAND = "Bands: 95 % Monte-Carlo intervals."
STYLES = line_styles([*ESTIMATORS, TRUE])
PARAMETERS = {
    "alpha": "α: how well the encoder ranks",
    "class_probability": "Class probability τ⁺",
    "negatives": "Negatives of an anchor, N",
    "anchors": "Anchors",
    "slide": "Largest slide of the base interval",
    "temperature": "Temperature t",
    "positives": "Positives of an anchor, K",
    "assumed alpha": "α that the BCL forms are told",
}
LOGARITHMIC = ("negatives", "anchors", "positives", "class_probability", "temperature")


def sweep(plot: Axes, part: pd.DataFrame, error: str = "standard error") -> None:
    """One line an estimator against the parameter that is varied; ticks where there are measurements.

    Args:
        plot: where to draw.
        part: a row an estimator and value, with ``estimator``, ``parameter``, ``at``, ``value`` and the error's column.
        error: that column.
    """
    for name in STYLES:
        draw_line(plot, part[part["estimator"] == name], "at", "value", STYLES[name], error=error)
    parameter = part["parameter"].iloc[0]
    plot.set_xlabel(PARAMETERS[parameter])
    if parameter in LOGARITHMIC:
        plot.set_xscale("log")
        plot.xaxis.set_major_locator(FixedLocator(sorted(part["at"].unique())))
        plot.xaxis.set_minor_locator(NullLocator())
        plot.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def draw_line(
    plot: Axes,
    part: pd.DataFrame,
    x: str,
    y: str,
    style: LineStyle,
    marker: bool = True,
    error: str = "standard error",
    scale: float = 1.0,
) -> None:
    """A line with its band: 1.96 errors on each side.

    Args:
        plot: where to draw.
        part: a row a point.
        x: the column along the axis.
        y: the column that is drawn.
        style: of the line.
        marker: whether points are marked.
        error: the column of standard errors.
        scale: by what values and errors are multiplied.
    """
    part = part.sort_values(x)
    value, reach = scale * part[y], scale * 1.96 * part[error]
    plot.plot(part[x], value, color=style.color, marker=style.marker if marker else "", linestyle=style.linestyle)
    plot.fill_between(part[x], value - reach, value + reach, color=style.color, alpha=0.2, linewidth=0)


def line_handle(style: LineStyle) -> Line2D:
    """The sample of a line without markers that a legend shows."""
    return legend_handle(LineStyle(style.color, "", style.linestyle))


def estimator_legend(figure: Figure, frame: pd.DataFrame) -> None:
    """A legend of the estimators that a frame holds."""
    names = [name for name in STYLES if name in set(frame["estimator"])]
    add_legend(figure, [legend_handle(STYLES[name]) for name in names], names)


def in_words(frame: pd.DataFrame) -> str:
    """Each line's first and last value."""
    parts = []
    for (parameter, name), part in frame.sort_values("at").groupby(["parameter", "estimator"], sort=False):
        ends = " to ".join(f"{row.value:.3g} at {row.at:g}" for row in part.iloc[[0, -1]].itertuples())
        parts.append(f"{name} against {parameter}: {ends}")
    return "; ".join(parts) + "."

"""What the figures of the theory share: one style per estimator, lines with their Monte-Carlo intervals."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from trueneg.report.drawing import LineStyle, add_style_legend, line_styles
from trueneg.report.plots import Axis, draw_intervals, place_ticks
from trueneg.specs.experiments import ESTIMATORS, TRUE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAND = "Bands: 95 % Monte-Carlo intervals."
STYLES = line_styles([*ESTIMATORS, TRUE])
AXES = {
    "alpha": Axis("α: how well the encoder ranks"),
    "class_probability": Axis("Class probability τ⁺", logarithmic=True),
    "negatives": Axis("Negatives of an anchor, N", logarithmic=True),
    "anchors": Axis("Anchors", logarithmic=True),
    "slide": Axis("Largest slide of the base interval"),
    "temperature": Axis("Temperature t", logarithmic=True),
    "positives": Axis("Positives of an anchor, K", logarithmic=True),
    "assumed alpha": Axis("α given to the BCL forms"),
}


def sweep(plot: "Axes", part: pd.DataFrame, error: str = "standard error") -> None:
    """One line per estimator against the parameter that is varied, with intervals from a column of errors."""
    draw_sampled(plot, part, "estimator", STYLES, x="at", error=error)
    axis = AXES[part["parameter"].iloc[0]]
    plot.set_xlabel(axis.label)
    if axis.logarithmic:
        place_ticks(plot, sorted(part["at"].unique()), axis)


def draw_sampled(
    plot: "Axes",
    table: pd.DataFrame,
    by: str,
    styles: Mapping[str, LineStyle],
    x: str,
    y: str = "value",
    error: str = "standard error",
    **drawn: Any,
) -> None:
    """A line per value of a column, with intervals of 1.96 errors on each side, as a band unless something else is asked for."""
    reach = 1.96 * table[error]
    table = table.assign(low=table[y] - reach, high=table[y] + reach)
    for name, style in styles.items():
        draw_intervals(plot, table[table[by] == name], style, x=x, y=y, **{"band": True} | drawn)


def unmarked(styles: dict[str, LineStyle]) -> dict[str, LineStyle]:
    """The styles of lines without markers."""
    return {name: LineStyle(style.color, "", style.linestyle) for name, style in styles.items()}


def estimator_legend(figure: "Figure", frame: pd.DataFrame) -> None:
    """A legend of the estimators that a frame holds."""
    add_style_legend(figure, {name: style for name, style in STYLES.items() if name in set(frame["estimator"])})


def in_words(frame: pd.DataFrame) -> str:
    """Each line's first and last value."""
    parts = []
    for (parameter, name), part in frame.sort_values("at").groupby(["parameter", "estimator"], sort=False):
        ends = " to ".join(f"{row.value:.3g} at {row.at:g}" for row in part.iloc[[0, -1]].itertuples())
        parts.append(f"{name} against {parameter}: {ends}")
    return "; ".join(parts) + "."

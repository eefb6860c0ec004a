"""Helpers shared by the theory figures: one style per estimator, and lines with Monte-Carlo intervals."""

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
    """Draw one line per estimator against the varied parameter, with intervals from the column `error`."""
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
    """Draw one line per value of the column `by`, with intervals of ±1.96 errors, by default as bands."""
    reach = 1.96 * table[error]
    table = table.assign(low=table[y] - reach, high=table[y] + reach)
    for name, style in styles.items():
        draw_intervals(plot, table[table[by] == name], style, x=x, y=y, **{"band": True} | drawn)


def unmarked(styles: dict[str, LineStyle]) -> dict[str, LineStyle]:
    """Return the styles without their markers."""
    return {name: LineStyle(style.color, "", style.linestyle) for name, style in styles.items()}


def estimator_legend(figure: "Figure", frame: pd.DataFrame) -> None:
    """Add a legend of the estimators in a frame."""
    add_style_legend(figure, {name: style for name, style in STYLES.items() if name in set(frame["estimator"])})


def in_words(frame: pd.DataFrame) -> str:
    """Describe each line by its first and last value."""
    parts = []
    for (parameter, name), part in frame.sort_values("at").groupby(["parameter", "estimator"], sort=False):
        ends = " to ".join(f"{row.value:.3g} at {row.at:g}" for row in part.iloc[[0, -1]].itertuples())
        parts.append(f"{name} against {parameter}: {ends}")
    return "; ".join(parts) + "."

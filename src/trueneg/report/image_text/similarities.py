"""How similar pairs of an image and a text are, by how they are related (ReCo's Figs. 4 and 6)."""

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from trueneg.report.drawing import STYLE, LineStyle, add_legend, finish, legend_handle, panels

OWN, TRUE, FALSE = RELATIONS = ("own pair", "true of the image", "not true of the image")
STYLES = {
    OWN: LineStyle("#1a1a1a", "", "-"),
    TRUE: LineStyle("#0072b2", "", (0, (5, 1.5))),
    FALSE: LineStyle("#d55e00", "", (0, (1.5, 1.5))),
}
BINS = 50
TAIL = 0.001  # of each objective's pairs that may lie outside the axis


@matplotlib.rc_context(STYLE)
def similarity_histograms(similarities: pd.DataFrame, objectives: Sequence[str], note: str = "") -> Figure:
    """Distribution of the similarity, a panel an objective, a line a relation, all on the same axis.

    Above each panel stands how well the similarity tells what is true of an image: the probability that a text of another
    report which is true of it is nearer than one that is not.

    Args:
        similarities: a row a pair: ``dataset``, ``objective``, ``seed``, ``relation`` (of :data:`RELATIONS`), ``similarity``.
        objectives: one panel each, in this order.
        note: printed in the footnote.

    Raises:
        ValueError: if an objective has no rows.
    """
    present = [name for name in RELATIONS if (similarities["relation"] == name).any()]
    columns = min(len(objectives), 3)
    lines = -(-len(objectives) // columns)
    figure, axes = panels(lines, columns, width=max(6.4, 2.9 * columns), height=1.3 + 1.85 * lines, share=True)
    for plot in axes.flat[len(objectives) :]:
        plot.set_axis_off()
    low, high = _limits(similarities, objectives)
    edges = np.linspace(low, high, BINS + 1)
    texts = []
    for plot, objective in zip(axes.flat, objectives, strict=False):
        of_objective = similarities[similarities["objective"] == objective]
        if of_objective.empty:
            raise ValueError(
                f"similarities hold no objective {objective}; found {', '.join(similarities['objective'].unique())}."
            )
        by_relation = {name: of_objective.loc[of_objective["relation"] == name, "similarity"].to_numpy() for name in present}
        _panel(plot, by_relation, edges)
        plot.set_title(objective + _separation(by_relation), fontsize=9.5)
        medians = ", ".join(f"{name} {np.median(values):.2f}" for name, values in by_relation.items() if len(values))
        texts.append(f"{objective}: median similarity {medians}{_separation(by_relation).strip()}".replace("\n", "; "))
    for place, plot in enumerate(axes.flat[: len(objectives)]):
        # The last panel of each column has the ticks, whether or not its row is full.
        plot.tick_params(labelbottom=place + columns >= len(objectives))
        plot.set_xlabel("Similarity" if place + columns >= len(objectives) else "")
    axes[0, 0].set_ylim(bottom=0)
    for plot in axes[:, 0]:
        plot.set_ylabel("Density")
    add_legend(figure, [legend_handle(STYLES[name]) for name in present], present)
    dataset, seed = similarities[["dataset", "seed"]].iloc[0]
    most = similarities.groupby(["objective", "relation"]).size().max()
    about = f"{dataset}, test split, seed {seed}: at most {most:,} pairs a line."
    return finish(figure, [about, note], f"Distributions of similarity. {'; '.join(texts)}.")


def _limits(similarities: pd.DataFrame, objectives: Sequence[str]) -> tuple[float, float]:
    shown = similarities[similarities["objective"].isin(list(objectives))]
    ends = shown.groupby("objective")["similarity"].quantile([TAIL, 1 - TAIL]).unstack()
    return float(ends[TAIL].min()), float(ends[1 - TAIL].max())


def _panel(plot: Axes, by_relation: dict[str, np.ndarray], edges: np.ndarray) -> None:
    for name, values in by_relation.items():
        style = STYLES[name]
        if len(values):
            density, _ = np.histogram(values, edges)
            density = density / (len(values) * np.diff(edges))
            plot.stairs(density, edges, color=style.color, linestyle=style.linestyle, linewidth=1.4, label=name)
            plot.stairs(density, edges, color=style.color, alpha=0.12, fill=True)
    plot.grid(axis="y", visible=False)


def _separation(by_relation: dict[str, np.ndarray]) -> str:
    """P(true > not true), as a second line of the title; empty where one of the two is not known."""
    true, false = (by_relation.get(name, np.zeros(0)) for name in (TRUE, FALSE))
    if not (len(true) and len(false)):
        return ""
    above = stats.mannwhitneyu(true, false).statistic / (len(true) * len(false))
    return f"\nP(true > not true) {above:.2f}"

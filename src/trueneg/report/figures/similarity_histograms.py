"""Distributions of image–text similarity by relation of the pair (ReCo's Figs. 4 and 6)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from trueneg.config import runs
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import Drawing
from trueneg.report.drawing import Axes, Figure, LineStyle, add_style_legend, finish
from trueneg.report.gathered import Gathered
from trueneg.report.plots import facets, rows_where
from trueneg.specs.settings import Study

ORDER = 50
OWN, TRUE, FALSE = RELATIONS = ("own pair", "true of the image", "not true of the image")
STYLES = {
    OWN: LineStyle("#1a1a1a", "", "-"),
    TRUE: LineStyle("#0072b2", "", (0, (5, 1.5))),
    FALSE: LineStyle("#d55e00", "", (0, (1.5, 1.5))),
}
BINS = 50
TAIL = 0.001  # maximum fraction of each objective's pairs beyond either end of the axis


def drawings(study: Study) -> list[Drawing]:
    """Declare the similarity histograms if an image–text study requests them."""
    if not isinstance(study, ImageTextStudy) or study.figures.similarities is None:
        return []
    dataset = study.primary.dataset or next(iter(runs.datasets(study)))
    files = tuple(f"similarities/{dataset}/{objective}.parquet" for objective in study.figures.similarities.objectives)
    title = "Similarities of pairs, by how they are related"
    caption = "ReCo's Fig. 4: an objective that tells false negatives apart keeps what is true of an image away from what is not."
    return [Drawing("similarity_histograms", draw, title, caption, ("study.yaml", *files), {"files": files})]


def draw(gathered: Gathered, files: Sequence[str]) -> Figure:
    """Draw the figure for the objectives that the study names."""
    objectives = gathered.study.figures.similarities.objectives
    return similarity_histograms(gathered.read(*files), objectives, gathered.own_note)


def similarity_histograms(similarities: pd.DataFrame, objectives: Sequence[str], note: str = "") -> Figure:
    """Plot the distribution of similarities: one panel per objective and one line per relation, all on the same axis.

    The title of each panel gives how well the similarity separates true from false texts: the probability that a text from
    another report that is true of an image is nearer to it than one that is not.
    """
    chosen = pd.concat([rows_where(similarities, objective=[name]) for name in objectives])
    present = [name for name in RELATIONS if (chosen["relation"] == name).any()]
    ends = chosen.groupby("objective")["similarity"].quantile(np.array([TAIL, 1 - TAIL])).unstack()
    edges = np.linspace(ends[TAIL].min(), ends[1 - TAIL].max(), BINS + 1)
    labels: dict[str, Any] = {"xlabel": "Similarity", "ylabel": "Density"}
    figure, found = facets(chosen, "objective", size=(2.9, 1.85), share=True, **labels)
    texts = []
    for plot, (objective,), part in found:
        by_relation = {name: part.loc[part["relation"] == name, "similarity"].to_numpy() for name in present}
        separation = _separation(by_relation)
        _panel(plot, by_relation, edges)
        plot.set_title(objective + separation, fontsize=9.5)
        medians = ", ".join(f"{name} {np.median(values):.2f}" for name, values in by_relation.items() if len(values))
        texts.append(f"{objective}: median similarity {medians}{separation}".replace("\n", "; "))
    figure.axes[0].set_ylim(bottom=0)
    add_style_legend(figure, {name: STYLES[name] for name in present})
    dataset, seed = similarities[["dataset", "seed"]].iloc[0]
    most = similarities.groupby(["objective", "relation"]).size().max()
    about = f"{dataset}, test split, seed {seed}: at most {most:,} pairs a line."
    return finish(figure, [about, note], f"Distributions of similarity. {'; '.join(texts)}.")


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
    """Return P(true > not true) as the second line of the title; empty if either kind of pair is missing."""
    true, false = (by_relation.get(name, np.zeros(0)) for name in (TRUE, FALSE))
    if not (len(true) and len(false)):
        return ""
    above = stats.mannwhitneyu(true, false).statistic / (len(true) * len(false))
    return f"\nP(true > not true) {above:.2f}"

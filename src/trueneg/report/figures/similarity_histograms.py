"""Distributions of similarity by the relation between image and text, or between two images (ReCo's Figs. 4 and 6)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from trueneg.report.declared import Drawing, per_objective
from trueneg.report.drawing import Figure, LineStyle, add_legend, finish
from trueneg.report.gathered import Gathered
from trueneg.report.plots import facets
from trueneg.specs.settings import Study

ORDER = 50
DASHED, DOTTED = LineStyle("#0072b2", "", (0, (5, 1.5))), LineStyle("#d55e00", "", (0, (1.5, 1.5)))
STYLES = {
    "own pair": LineStyle("#1a1a1a", "", "-"),
    "true of the image": DASHED,
    "not true of the image": DOTTED,
    "same class": DASHED,
    "another class": DOTTED,
}
# Pairs of relations whose separation is stated, and its name in panel titles.
SEPARATED = {
    ("true of the image", "not true of the image"): "true > not true",
    ("same class", "another class"): "same class > another class",
}
BINS = 50
TAIL = 0.001  # maximum fraction of each objective's pairs beyond either end of the axis


def drawings(study: Study) -> list[Drawing]:
    """Declare the similarity histograms if an image–text study requests them."""
    title = "Similarity of pairs by relation"
    caption = (
        "ReCo's Figs. 4 and 6: an objective that recognises false negatives separates texts that are true of an image, or pairs "
        "of the same class, from the others."
    )
    return per_objective(study, "similarities", similarity_histograms, title, caption)


def similarity_histograms(gathered: Gathered, files: Sequence[str]) -> Figure:
    """Plot the distribution of similarities: one panel per objective and one line per relation, all on the same axis.

    On CheXpert 8×200, text–image and image–image pairs each have their own column of panels and their own axis.

    The title of each panel states how well the similarity separates pairs: the probability that, of two texts from other reports,
    the one that is true of the image is more similar to it than the one that is not; on CheXpert 8×200, that a pair of the same
    class is more similar than a pair of different classes.
    """
    pairs = gathered.read(*files)
    by = [column for column in ("objective", "pairs") if column in pairs]
    share: Any = "col" if "pairs" in by else True
    figure, parts = facets(pairs, *by, size=(2.9, 1.85), share=share, xlabel="Similarity", ylabel="Density")
    styles = {name: style for name, style in STYLES.items() if name in set(pairs["relation"])}
    texts = []
    for plot, place, part in parts:
        panel = ", ".join(place)
        edges = _edges(pairs[pairs["pairs"] == place[1]] if "pairs" in by else pairs)
        by_relation = dict(list(part.groupby("relation")["similarity"]))
        separation, medians = _separation(by_relation), []
        for name in [name for name in styles if name in by_relation]:
            values, style = by_relation[name], styles[name]
            density = np.histogram(values, edges)[0] / (len(values) * np.diff(edges))
            plot.stairs(density, edges, color=style.color, linestyle=style.linestyle, linewidth=1.4, label=name)
            plot.stairs(density, edges, color=style.color, alpha=0.12, fill=True)
            medians.append(f"{name} {values.median():.2f}")
        plot.grid(axis="y", visible=False)
        plot.set_title("\n".join(filter(None, [panel, separation])), fontsize=9.5)
        texts.append("; ".join(filter(None, [f"{panel}: median similarity {', '.join(medians)}", separation])))
    for plot, *_ in parts:  # after all panels, because setting a limit turns off autoscaling of the shared axis
        plot.set_ylim(bottom=0)
    add_legend(figure, styles)
    dataset, seed = pairs[["dataset", "seed"]].iloc[0]
    most = pairs.groupby([*by, "relation"]).size().max()
    where = "CheXpert 8×200" if "pairs" in by else f"{dataset}, test split"
    about = f"{where}, seed {seed}: at most {most:,} pairs per line."
    return finish(figure, [about, gathered.study_note], f"Distributions of similarity. {'; '.join(texts)}.")


def _edges(pairs: pd.DataFrame) -> np.ndarray:
    """Return bin edges that leave at most :data:`TAIL` of each objective's pairs beyond either end."""
    ends = pairs.groupby("objective")["similarity"].quantile(np.array([TAIL, 1 - TAIL])).unstack()
    return np.linspace(ends[TAIL].min(), ends[1 - TAIL].max(), BINS + 1)


def _separation(by_relation: dict[Any, pd.Series]) -> str:
    """Return the separation, such as P(true > not true), as a line of the title; empty if a relation is missing."""
    for (higher, lower), name in SEPARATED.items():
        if {higher, lower} <= by_relation.keys():
            above, below = by_relation[higher], by_relation[lower]
            return f"P({name}) {scipy.stats.mannwhitneyu(above, below).statistic / (len(above) * len(below)):.2f}"
    return ""

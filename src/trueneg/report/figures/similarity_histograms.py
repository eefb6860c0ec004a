"""Distributions of image–text similarity by the relation between image and text (ReCo's Figs. 4 and 6)."""

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
TRUE, FALSE = "true of the image", "not true of the image"
STYLES = {
    "own pair": LineStyle("#1a1a1a", "", "-"),
    TRUE: LineStyle("#0072b2", "", (0, (5, 1.5))),
    FALSE: LineStyle("#d55e00", "", (0, (1.5, 1.5))),
}
BINS = 50
TAIL = 0.001  # maximum fraction of each objective's pairs beyond either end of the axis


def drawings(study: Study) -> list[Drawing]:
    """Declare the similarity histograms if an image–text study requests them."""
    title = "Similarity of image–text pairs by relation"
    caption = (
        "ReCo's Fig. 4: an objective that recognises false negatives separates texts that are true of an image from the others."
    )
    return per_objective(study, "similarities", similarity_histograms, title, caption)


def similarity_histograms(gathered: Gathered, files: Sequence[str]) -> Figure:
    """Plot the distribution of similarities: one panel per objective and one line per relation, all on the same axis.

    The title of each panel states how well the similarity separates true from false texts: the probability that, of two texts
    from other reports, the one that is true of the image is more similar to it than the one that is not.
    """
    pairs = gathered.read(*files)
    ends = pairs.groupby("objective")["similarity"].quantile(np.array([TAIL, 1 - TAIL])).unstack()
    edges = np.linspace(ends[TAIL].min(), ends[1 - TAIL].max(), BINS + 1)
    figure, found = facets(pairs, "objective", size=(2.9, 1.85), share=True, xlabel="Similarity", ylabel="Density")
    styles = {name: style for name, style in STYLES.items() if name in set(pairs["relation"])}
    texts = []
    for plot, (objective,), part in found:
        by_relation = dict(list(part.groupby("relation")["similarity"]))
        separation, medians = _separation(by_relation), []
        for name in [name for name in styles if name in by_relation]:
            values, style = by_relation[name], styles[name]
            density = np.histogram(values, edges)[0] / (len(values) * np.diff(edges))
            plot.stairs(density, edges, color=style.color, linestyle=style.linestyle, linewidth=1.4, label=name)
            plot.stairs(density, edges, color=style.color, alpha=0.12, fill=True)
            medians.append(f"{name} {values.median():.2f}")
        plot.grid(axis="y", visible=False)
        plot.set_title("\n".join(filter(None, [objective, separation])), fontsize=9.5)
        texts.append("; ".join(filter(None, [f"{objective}: median similarity {', '.join(medians)}", separation])))
    figure.axes[0].set_ylim(bottom=0)
    add_legend(figure, styles)
    dataset, seed = pairs[["dataset", "seed"]].iloc[0]
    most = pairs.groupby(["objective", "relation"]).size().max()
    about = f"{dataset}, test split, seed {seed}: at most {most:,} pairs per line."
    return finish(figure, [about, gathered.own_note], f"Distributions of similarity. {'; '.join(texts)}.")


def _separation(by_relation: dict[Any, pd.Series]) -> str:
    """Return P(true > not true) as a line of the title; empty if either relation is missing."""
    if not {TRUE, FALSE} <= by_relation.keys():
        return ""
    true, false = by_relation[TRUE], by_relation[FALSE]
    return f"P(true > not true) {scipy.stats.mannwhitneyu(true, false).statistic / (len(true) * len(false)):.2f}"

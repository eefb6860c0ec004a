"""The log-linear assumption: class probability against likelihood for every sentence scorer.

All figures read the tidy tables of :func:`trueneg.text.assumption.check_assumption`, which contain no text.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from trueneg.config import runs
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.report.declared import Drawing
from trueneg.report.drawing import COLOURS, Axes, Figure, LineStyle, add_style_legend, finish
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import with_interval
from trueneg.report.plots import facets, rows_where
from trueneg.specs.settings import Study

ORDER = 10
POINT, ACTUAL, FITTED = COLOURS[1], COLOURS[0], COLOURS[2]
STYLES = {
    "a sentence": LineStyle(POINT, "o", ""),
    "mean of a tenth of the sentences": LineStyle(ACTUAL, "s", "-"),
    "fitted a·p^k": LineStyle(FITTED, "", (0, (5, 1.5))),
}
FIGURES = (
    (
        "assumption_all_sentences",
        "all sentences",
        "all sentences",
        "The first paper assumes a straight line here: one panel a scorer, with the fitted a·p^k.",
    ),
    (
        "assumption_findings",
        "findings only",
        "sentences that affirm a finding",
        "Without denials and filler, whose likelihoods and frequencies both are high.",
    ),
)
MOST_POINTS = 4000  # maximum per panel; only the most frequent sentences are drawn


def drawings(study: Study) -> list[Drawing]:
    """Declare the figures of a likelihood study with known classes: first corpus, all sentences and those affirming a finding."""
    if not isinstance(study, LikelihoodStudy) or not study.reports.classes_known:
        return []
    corpus = next(iter(runs.corpora(study)))
    files = tuple(f"assumption/{corpus}/{table}.parquet" for table in ("points", "summary", "calibration"))
    found = []
    for name, sentences, title, caption in FIGURES:
        title, options = f"Class probability against likelihood, {title}", {"files": files, "sentences": sentences}
        found.append(Drawing(name, draw, title, caption, ("study.yaml", *files), options))
    return found


def draw(gathered: Gathered, files: Sequence[str], sentences: str) -> Figure:
    """Draw the figure from the points, summary and calibration of a corpus."""
    points, summary, calibration = map(gathered.read, files)
    return class_probability_by_likelihood(points, summary, calibration, sentences, gathered.study.note)


def class_probability_by_likelihood(
    points: pd.DataFrame, summary: pd.DataFrame, calibration: pd.DataFrame, sentences: str, note: str = ""
) -> Figure:
    """Plot class probability against log-likelihood, one panel per scorer: unique sentences, quantiles and the fitted a·p^k."""
    chosen = rows_where(summary, sentences=[sentences])
    corpus = chosen["corpus"].iloc[0]
    points = points if sentences == "all sentences" else points[points["finding"]]
    calibration = rows_where(calibration, sentences=[sentences])
    figure, found = facets(chosen, "scorer", size=(2.7, 2.5), ylabel="Class probability")
    for plot, (scorer,), row in found:
        _panel(plot, rows_where(points, scorer=[scorer]), rows_where(calibration, scorer=[scorer]), row.iloc[0])
    add_style_legend(figure, STYLES)
    about = (
        f"{corpus}, {sentences}: {int(chosen['texts'].max()):,} sentences, {int(chosen['unique'].max()):,} of them unique, "
        f"{int(chosen['classes'].max())} classes. ρ: Spearman's, with 95 % intervals over classes drawn anew. "
        "Horizontal axes differ."
    )
    values = "; ".join(f"{row['scorer']} ρ {rho_text(row)}, k {row['k']:.3g}" for _, row in chosen.iterrows())
    return finish(figure, [about, note], f"Class probability against log-likelihood, {corpus}, {sentences}: {values}.")


def _panel(plot: Axes, points: pd.DataFrame, bins: pd.DataFrame, row: pd.Series) -> None:
    points = points.nlargest(MOST_POINTS, "count")
    x, y = points["log_likelihood"], np.exp(points["log_class_probability"])
    look: dict[str, Any] = {"color": POINT, "alpha": 0.25, "linewidths": 0, "rasterized": True}
    plot.scatter(x, y, s=4 + 4 * np.log1p(points["count"]), **look)
    bins = bins.sort_values("log_likelihood")
    plot.plot(bins["log_likelihood"], bins["actual"], color=ACTUAL, marker="s", markersize=4)
    ends = np.array([bins["log_likelihood"].min(), bins["log_likelihood"].max()])
    plot.plot(ends, row["a"] * np.exp(row["k"] * ends), color=FITTED, linestyle=(0, (5, 1.5)))
    plot.set_yscale("log")
    plot.set_title(f"{row['scorer']}\nρ {rho_text(row)}", fontsize=9.5)
    plot.set_xlabel("− number of words" if row["scorer"] == "length" else "Log-likelihood (nats)")


def rho_text(row: pd.Series) -> str:
    """Format Spearman's ρ of a summary row with its interval."""
    return with_interval(row["spearman"], row["low"], row["high"], "ρ")

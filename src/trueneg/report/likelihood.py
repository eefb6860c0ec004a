"""Figure and table of the log-linear assumption: class probability against likelihood, for every way to score a sentence.

All read the tidy tables of :func:`trueneg.text.assumption.check_assumption`, which hold no text.
"""

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trueneg.report.drawing import COLOURS, STYLE, add_legend, finish, panels
from trueneg.report.formats import Cell, Group, Table

POINT, ACTUAL, FITTED = COLOURS[1], COLOURS[0], COLOURS[2]
MOST_POINTS = 4000  # in a panel; more are drawn as this many, the most frequent


@matplotlib.rc_context(STYLE)
def class_probability_by_likelihood(
    points: pd.DataFrame,
    summary: pd.DataFrame,
    calibration: pd.DataFrame,
    corpus: str,
    sentences: str,
    scorers: Sequence[str] | None = None,
    note: str = "",
) -> Figure:
    """Class probability against log-likelihood, a panel a scorer: unique sentences, quantiles, and the fitted a·p^k.

    Args:
        points: a row a unique sentence, class and scorer.
        summary: a row a corpus, choice of sentences and scorer.
        calibration: a row a quantile of each of these.
        corpus: which corpus.
        sentences: ``"all sentences"`` or ``"findings only"``.
        scorers: one panel each, in this order; None: all.
        note: printed in the footnote.

    Raises:
        ValueError: if there are no such rows.
    """
    chosen = _of(summary, corpus=corpus, sentences=sentences)
    scorers = list(chosen["scorer"]) if scorers is None else list(scorers)
    columns = min(len(scorers), 3)
    lines = -(-len(scorers) // columns)
    figure, axes = panels(lines, columns, width=max(6.4, 2.7 * columns), height=1.5 + 2.5 * lines)
    for plot in axes.flat[len(scorers) :]:
        plot.set_axis_off()
    for plot, scorer in zip(axes.flat, scorers, strict=False):
        row = _of(chosen, scorer=scorer).iloc[0]
        of_scorer = _of(points, corpus=corpus, scorer=scorer)
        if sentences != "all sentences":
            of_scorer = of_scorer[of_scorer["finding"]]
        bins = _of(calibration, corpus=corpus, sentences=sentences, scorer=scorer)
        _panel(plot, of_scorer, bins, row)
    for plot in axes[:, 0]:
        plot.set_ylabel("Class probability")
    handles = [
        Line2D([], [], color=POINT, marker="o", linestyle="none", markersize=3.5, alpha=0.6),
        Line2D([], [], color=ACTUAL, marker="s", linestyle="-"),
        Line2D([], [], color=FITTED, linestyle=(0, (5, 1.5))),
    ]
    add_legend(figure, handles, ["a sentence", "mean of a tenth of the sentences", "fitted a·p^k"])
    about = (
        f"{corpus}, {sentences}: {int(chosen['texts'].max()):,} sentences, {int(chosen['unique'].max()):,} of them unique, "
        f"{int(chosen['classes'].max())} classes. ρ: Spearman's, with 95 % intervals over classes drawn anew. "
        "Horizontal axes differ."
    )
    values = "; ".join(f"{row.scorer} ρ {_interval(row)}, k {row.k:.3g}" for row in chosen.itertuples() if row.scorer in scorers)
    return finish(figure, [about, note], f"Class probability against log-likelihood, {corpus}, {sentences}: {values}.")


def assumption_table(summary: pd.DataFrame) -> Table:
    """Rank correlation, fit and error of every scorer, a group a corpus and choice of sentences.

    Args:
        summary: a row a corpus, choice of sentences and scorer.
    """
    groups = []
    for (corpus, sentences), rows in summary.groupby(["corpus", "sentences"], sort=False):
        title = f"{corpus}, {sentences}: {int(rows['texts'].max()):,} sentences, {int(rows['classes'].max())} classes"
        lines = [
            (
                row["scorer"],
                [
                    Cell(_interval(row)),
                    Cell(_signed(row["spearman of classes"])),
                    Cell(f"{row['a']:.3g}"),
                    Cell(_signed(row["k"], 3)),
                    Cell(f"{row['error']:.3f}"),
                ],
            )
            for _, row in rows.iterrows()
        ]
        groups.append(Group(title, lines))
    names = ("Spearman's ρ", "ρ of class means", "a", "k", "mean error of a·p^k")
    notes = [
        "ρ: rank correlation of log-likelihood and class probability over sentences as often as they occur, with its 95 % "
        "percentile interval over classes drawn anew; of class means: each class once.",
        "a and k: weighted least squares in log space. Mean error: of the class probability, absolute. "
        "Unigrams and sentence frequency are counted on the reports of the other folds.",
    ]
    return Table(summary, [("", name) for name in names], groups, notes, corner="scorer")


def _panel(plot: Axes, points: pd.DataFrame, bins: pd.DataFrame, row: pd.Series) -> None:
    points = points.nlargest(MOST_POINTS, "count")
    plot.scatter(
        points["log_likelihood"],
        np.exp(points["log_class_probability"]),
        s=4 + 4 * np.log1p(points["count"]),
        color=POINT,
        alpha=0.25,
        linewidths=0,
        rasterized=True,
    )
    bins = bins.sort_values("log_likelihood")
    plot.plot(bins["log_likelihood"], bins["actual"], color=ACTUAL, marker="s", markersize=4)
    ends = np.array([bins["log_likelihood"].min(), bins["log_likelihood"].max()])
    plot.plot(ends, row["a"] * np.exp(row["k"] * ends), color=FITTED, linestyle=(0, (5, 1.5)))
    plot.set_yscale("log")
    plot.set_title(f"{row['scorer']}\nρ {_interval(row)}", fontsize=9.5)
    plot.set_xlabel("− number of words" if row["scorer"] == "length" else "Log-likelihood (nats)")


def _of(table: pd.DataFrame, **wanted: str) -> pd.DataFrame:
    for column, value in wanted.items():
        kept = table[table[column] == value]
        if kept.empty:
            found = ", ".join(sorted(map(str, table[column].unique()))) or "none"
            raise ValueError(f"There is nothing to draw for {column} {value}; found {found}.")
        table = kept
    return table


def _interval(row: pd.Series) -> str:
    return f"{_signed(row.spearman)} [{_signed(row.low)}, {_signed(row.high)}]"


def _signed(value: float, digits: int = 2) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")

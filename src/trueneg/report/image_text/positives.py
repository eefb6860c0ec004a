"""The similarity of the pairs that are trained on, epoch by epoch."""

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trueneg.report.drawing import STYLE, add_legend, finish, legend_handle, line_styles, panels, say_empty
from trueneg.report.labels import INTERVAL, seed_count
from trueneg.stats.comparison import half_interval

COLUMN = "similarity of pairs"


@matplotlib.rc_context(STYLE)
def positive_similarity(curves: pd.DataFrame, note: str = "") -> Figure:
    """Mean similarity of an image and its own text by epoch, one line an objective, one panel a data set.

    The nearer the positives, the more a debiased loss subtracts, and the more anchors stand at the bound.

    Args:
        curves: a row an epoch of a run; those without ``similarity of pairs`` draw nothing.
        note: printed in the footnote.
    """
    datasets = list(dict.fromkeys(curves["dataset"]))
    columns = min(len(datasets), 3)
    lines = -(-len(datasets) // columns)
    figure, axes = panels(lines, columns, width=max(6.4, 3.2 * columns), height=1.2 + 2.7 * lines)
    for plot in axes.flat[len(datasets) :]:
        plot.set_axis_off()
    styles = line_styles(curves["objective"])
    measured = curves.reindex(columns=[*curves.columns.drop(COLUMN, errors="ignore"), COLUMN]).dropna(subset=COLUMN)
    found = measured.groupby(["dataset", "objective", "epoch"], sort=False)[COLUMN].agg(["count", "mean", "std"]).reset_index()
    half = half_interval(found["std"], found["count"])
    found = found.assign(low=found["mean"] - half, high=found["mean"] + half)
    if found.empty:
        say_empty(axes[0, 0], "The training did not record the similarity of its pairs.")
        return finish(figure, [note], "Similarity of pairs by epoch: no values.")
    for plot, dataset in zip(axes.flat, datasets, strict=False):
        for place, (name, style) in enumerate(styles.items()):
            line = found[(found["dataset"] == dataset) & (found["objective"] == name)].sort_values("epoch")
            spacing = max(1, len(line) // 6)
            drawn = {"color": style.color, "marker": style.marker, "linestyle": style.linestyle, "markersize": 4.5}
            every = (place * spacing // len(styles), spacing)
            plot.plot(line["epoch"], line["mean"], **drawn, markevery=every, label=name)
            plot.fill_between(line["epoch"], line["low"], line["high"], color=style.color, alpha=0.16, linewidth=0)
        plot.set_title(dataset)
        plot.set_xlabel("Epoch")
        plot.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for plot in axes[:, 0]:
        plot.set_ylabel("Similarity of a pair")
    shown = [name for name in styles if name in set(found["objective"])]
    add_legend(figure, [legend_handle(styles[name]) for name in shown], shown)
    last = found[found["epoch"] == found.groupby(["dataset", "objective"])["epoch"].transform("max")]
    values = "; ".join(f"{row['objective']}, {row['dataset']} {row['mean']:.3g}" for _, row in last.iterrows())
    about = f"Mean over an epoch's training pairs. Bands: {INTERVAL} ({seed_count(last['count'])})."
    return finish(figure, [about, note], f"Similarity of pairs by epoch. At the last epoch: {values}.")

"""What happens while a model trains: the loss, and the monitors that may explain a result.

All read a table with a row per epoch of a run and a column per monitor. Where an objective lacks a monitor, the table holds NaN
and the figure has no line.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import CURVES, Drawing
from trueneg.report.drawing import LineStyle, add_style_legend, finish, line_styles, panel_grid, panels, say_empty
from trueneg.report.gathered import Gathered
from trueneg.report.labels import INTERVAL, seed_count
from trueneg.report.plots import draw_intervals
from trueneg.specs.settings import Study
from trueneg.stats.comparison import half_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORDER = 100
GROUPS = ("common", "rare")
MEANS = {"estimated mean": LineStyle("#0072b2", "o", "-"), "true mean": LineStyle("#d55e00", "s", (0, (5, 1.5)))}
MEAN_NAMES = ("estimated", "true (from the labels)")


def drawings(study: Study) -> list[Drawing]:
    """Of every study that trains; some of images, others of images with sentences."""
    if not isinstance(study, (ImageStudy, ImageTextStudy)):
        return []
    found = [
        Drawing(
            "training_loss",
            training_loss,
            "Loss while training",
            "Losses of different objectives are not comparable; their shapes are.",
            CURVES,
        ),
        Drawing(
            "share_at_bound",
            share_at_bound,
            "Share of anchors at the bound",
            "An anchor at the bound gets no gradient from its negatives: the objective has switched it off.",
            CURVES,
        ),
    ]
    if isinstance(study, ImageTextStudy):
        caption = "The nearer the positives, the more a debiased loss subtracts, and the more anchors reach the bound."
        return [*found, Drawing("positive_similarity", positive_similarity, "Similarity of the training pairs", caption, CURVES)]
    return [
        *found,
        Drawing(
            "same_class_ratio",
            same_class_ratio,
            "Same-class images against the positive",
            "Debiased losses take 1 for this ratio; where it is lower they subtract more than the false negatives' mass.",
            CURVES,
        ),
        Drawing(
            "true_negative_mean",
            true_negative_mean,
            "The mean over true negatives, estimated and true",
            "What each objective takes for the mean of e^s over true negatives, beside that mean computed with labels.",
            CURVES,
        ),
    ]


def training_loss(gathered: Gathered) -> "Figure":
    """Loss (nats) by epoch."""
    about = "Losses of different objectives are different quantities: compare shapes, not heights."
    return by_dataset(gathered.curves, "loss", "Loss (nats)", "Loss by epoch", about, gathered.note)


def positive_similarity(gathered: Gathered) -> "Figure":
    """Mean similarity of an image and its own text by epoch."""
    about, title = "Mean over an epoch's training pairs.", "Similarity of pairs by epoch"
    return by_dataset(gathered.curves, "similarity of pairs", "Similarity of a pair", title, about, gathered.note)


def share_at_bound(gathered: Gathered) -> "Figure":
    """Share of anchors whose true-negative mass is held at its lower bound."""
    about, title = "An anchor at the bound gets no gradient from its negatives.", "Share of anchors at the bound by epoch"
    return by_group(gathered.curves, "share at bound", "Anchors at the bound (%)", title, about, gathered.note, factor=100)


def same_class_ratio(gathered: Gathered) -> "Figure":
    """Mean e^s over other images of the anchor's class, divided by e^s of its positive."""
    about = "Mean of exp(similarity) to images of the same class, over that to the positive; debiasing assumes 1."
    title, monitor = "Same-class to positive ratio by epoch", "same-class to positive ratio"
    return by_group(gathered.curves, monitor, "Same-class / positive", title, about, gathered.note, line=1.0)


def true_negative_mean(gathered: Gathered) -> "Figure":
    """Mean of e^s over the true negatives as an objective estimates it, beside its true value, on the primary data set."""
    return estimated_and_true(gathered.curves, gathered.dataset, gathered.note)


def by_dataset(curves: pd.DataFrame, monitor: str, label: str, title: str, about: str, note: str = "") -> "Figure":
    """One panel per data set, one line per objective."""
    datasets, styles = list(dict.fromkeys(curves["dataset"])), line_styles(curves["objective"])
    figure, axes = panel_grid(len(datasets), width=3.2, height=2.7)
    for plot, dataset in zip(axes.flat, datasets, strict=False):
        _draw(plot, curves, dataset, {name: (name, monitor, style) for name, style in styles.items()})
        plot.set_title(dataset)
    for plot in axes[:, 0]:
        plot.set_ylabel(label)
    return _finish(figure, curves, [monitor], styles, title, [about, note])


def by_group(
    curves: pd.DataFrame,
    monitor: str,
    label: str,
    title: str,
    about: str,
    note: str = "",
    line: float | None = None,
    factor: float = 1.0,
) -> "Figure":
    """One panel per data set and group of classes, one line per objective."""
    datasets, styles = list(dict.fromkeys(curves["dataset"])), line_styles(curves["objective"])
    figure, axes = panels(len(datasets), 2, width=7.2, height=1.2 + 2.5 * len(datasets), share=True)
    for row, dataset in zip(axes, datasets, strict=True):
        for plot, group in zip(row, GROUPS, strict=True):
            _draw(plot, curves, dataset, {name: (name, f"{monitor} {group}", style) for name, style in styles.items()}, factor)
            plot.set_title(f"{dataset}, {group} classes")
            if line is not None:
                plot.axhline(line, color="0.1", linewidth=1)
            if dataset != datasets[-1]:
                plot.set_xlabel("")
        row[0].set_ylabel(label)
    return _finish(figure, curves, [f"{monitor} {group}" for group in GROUPS], styles, title, [about, note])


def estimated_and_true(curves: pd.DataFrame, dataset: str, note: str = "") -> "Figure":
    """One panel per group of classes and objective that estimates the mean; two lines each."""
    curves = curves[curves["dataset"] == dataset]
    columns = [f"{kind} {group}" for kind in MEANS for group in GROUPS]
    measured = curves.reindex(columns=columns[: len(GROUPS)]).notna().any(axis=1)
    objectives = list(dict.fromkeys(curves.loc[measured, "objective"]))
    width = max(6.4, 2.3 * len(objectives) + 0.6)
    figure, axes = panels(len(GROUPS), max(1, len(objectives)), width=width, height=5.0, share=True)
    for line, group in zip(axes, GROUPS, strict=True):
        line[0].set_ylabel(f"Mean of exp(similarity)\n{group} classes")
        for plot, objective in zip(line, objectives, strict=False):
            _draw(plot, curves, dataset, {kind: (objective, f"{kind} {group}", style) for kind, style in MEANS.items()})
            plot.set_title(objective if group == GROUPS[0] else "")
            plot.set_xlabel("" if group == GROUPS[0] else "Epoch")
        if not objectives:
            say_empty(line[0], "No objective of this study estimates the true-negative mean.")
    about = f"{dataset}: the mean over an anchor's true negatives, as the objective estimates it and as it is."
    styles = dict(zip(MEAN_NAMES, MEANS.values(), strict=True))
    return _finish(figure, curves, columns, styles, "Estimated and true mean by epoch", [about, note])


def _draw(
    plot: "Axes", curves: pd.DataFrame, dataset: str, lines: Mapping[str, tuple[str, str, LineStyle]], factor: float = 1.0
) -> None:
    """Lines (label → objective, column, style) with their bands; markers are few and never above each other."""
    from matplotlib.ticker import MaxNLocator

    drawn = 0
    for place, (label, (objective, column, style)) in enumerate(lines.items()):
        own = curves[(curves["dataset"] == dataset) & (curves["objective"] == objective)]
        line = _over_seeds(own.reindex(columns=["epoch", column]), column)
        if len(line):
            spacing = max(1, len(line) // 6)
            look = {"markevery": (place * spacing // len(lines), spacing), "markersize": 4.5}
            draw_intervals(plot, line, style, x="epoch", factor=factor, band=True, label=label, **look)
            drawn += 1
    if not drawn:
        say_empty(plot, f"No objective has a value of '{next(iter(lines.values()))[1]}'.")
        return
    plot.set_xlabel("Epoch")
    plot.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _over_seeds(curves: pd.DataFrame, column: str) -> pd.DataFrame:
    """Mean and t interval over seeds, by epoch."""
    values = curves.groupby("epoch")[column].agg(seeds="count", mean="mean", deviation="std").reset_index()
    found = values.dropna(subset="mean")
    half = half_interval(found["deviation"], found["seeds"])
    return found.assign(low=found["mean"] - half, high=found["mean"] + half)


def _finish(
    figure: "Figure",
    curves: pd.DataFrame,
    columns: Sequence[str],
    styles: Mapping[str, LineStyle],
    title: str,
    sentences: Sequence[str],
) -> "Figure":
    """The legend of what is drawn, the footnote, and the values of each line at its last epoch."""
    values = curves.reindex(columns=["dataset", "objective", "epoch", *columns]).melt(["dataset", "objective", "epoch"])
    values = values.dropna(subset="value")
    last = values[values["epoch"] == values.groupby(["objective", "variable"])["epoch"].transform("max")]
    ends = last.groupby(["objective", "variable", "dataset"], sort=False)["value"].mean()
    shown = {name: style for name, style in styles.items() if name in set(values["objective"]) or name in MEAN_NAMES}
    if len(values):
        add_style_legend(figure, shown)
    seeds = seed_count(curves.groupby(["dataset", "objective"])["seed"].nunique())
    texts = (f"{objective}, {dataset}, {column} {value:.3g}" for (objective, column, dataset), value in ends.items())
    described = f"{title}. At the last epoch, mean over seeds: {'; '.join(texts)}." if len(values) else f"{title}: no values."
    return finish(figure, [sentences[0], f"Bands: {INTERVAL} ({seeds}).", *sentences[1:]], described)

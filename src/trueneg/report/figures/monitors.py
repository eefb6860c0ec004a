"""Training curves: the loss, and the monitors that may explain a result.

All figures read a table with one row per epoch and run and one column per monitor. If an objective lacks a monitor, the table
contains NaN and the figure has no line for it.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import CURVES, Drawing
from trueneg.report.drawing import Figure, LineStyle, add_style_legend, finish, line_styles
from trueneg.report.gathered import Gathered
from trueneg.report.labels import INTERVAL, seed_count
from trueneg.report.plots import draw_intervals, facets
from trueneg.specs.settings import Study
from trueneg.stats.comparison import half_interval

ORDER = 100
GROUPS = ("common", "rare")
MEANS = {"estimated mean": LineStyle("#0072b2", "o", "-"), "true mean": LineStyle("#d55e00", "s", (0, (5, 1.5)))}
KEYS = ["dataset", "objective", "epoch"]


def drawings(study: Study) -> list[Drawing]:
    """Declare the monitors of a trained study; some are for image studies only, others for image–text studies only."""
    if not isinstance(study, (ImageStudy, ImageTextStudy)):
        return []
    found = [
        _of_curves(training_loss, "Loss while training", "Losses of different objectives are not comparable; their shapes are."),
        _of_curves(
            share_at_bound,
            "Share of anchors at the bound",
            "An anchor at the bound gets no gradient from its negatives: the objective has switched it off.",
        ),
    ]
    if isinstance(study, ImageTextStudy):
        caption = "The nearer the positives, the more a debiased loss subtracts, and the more anchors reach the bound."
        return [*found, _of_curves(positive_similarity, "Similarity of the training pairs", caption)]
    return [
        *found,
        _of_curves(
            same_class_ratio,
            "Same-class images against the positive",
            "Debiased losses take 1 for this ratio; where it is lower they subtract more than the false negatives' mass.",
        ),
        _of_curves(
            true_negative_mean,
            "The mean over true negatives, estimated and true",
            "What each objective takes for the mean of e^s over true negatives, beside that mean computed with labels.",
        ),
    ]


def _of_curves(make: Callable[[Gathered], Figure], title: str, caption: str) -> Drawing:
    return Drawing(make.__name__, make, title, caption, CURVES)


def training_loss(gathered: Gathered) -> Figure:
    """Plot the loss (nats) by epoch."""
    about = "Losses of different objectives are different quantities: compare shapes, not heights."
    return by_objective(gathered.curves, "loss", "Loss (nats)", [about, gathered.note])


def positive_similarity(gathered: Gathered) -> Figure:
    """Plot the mean similarity of an image and its own text by epoch."""
    about = "Mean over an epoch's training pairs."
    return by_objective(gathered.curves, "similarity of pairs", "Similarity of a pair", [about, gathered.note])


def share_at_bound(gathered: Gathered) -> Figure:
    """Plot the fraction of anchors whose true-negative mass is clamped to its lower bound."""
    about = "An anchor at the bound gets no gradient from its negatives."
    sentences = [about, gathered.note]
    return by_objective(gathered.curves, "share at bound", "Anchors at the bound (%)", sentences, GROUPS, factor=100)


def same_class_ratio(gathered: Gathered) -> Figure:
    """Plot the mean e^s over other images of the anchor's class, divided by e^s of its positive; debiasing assumes 1."""
    about = "Mean of exp(similarity) to images of the same class, over that to the positive; debiasing assumes 1."
    monitor, sentences = "same-class to positive ratio", [about, gathered.note]
    figure = by_objective(gathered.curves, monitor, "Same-class / positive", sentences, GROUPS)
    for plot in figure.axes:
        plot.axhline(1, color="0.1", linewidth=1)
    return figure


def true_negative_mean(gathered: Gathered) -> Figure:
    """Plot each objective's estimate of the mean e^s over true negatives, and the true value, on the primary data set."""
    means = over_seeds(gathered.curves[gathered.curves["dataset"] == gathered.dataset], list(MEANS), GROUPS)
    estimating = means.loc[means["monitor"] == "estimated mean", "objective"]
    means = means[means["objective"].isin(estimating)].sort_values("group", kind="stable")
    about = "the mean over an anchor's true negatives, as the objective estimates it and as the labels give it."
    label, sentences = "Mean of exp(similarity)", [f"{gathered.dataset}: {about}", gathered.note]
    return by_epoch(means, ["group", "objective"], "{1}\n{0} classes", "monitor", MEANS, label, sentences)


def by_objective(
    curves: pd.DataFrame,
    monitor: str,
    label: str,
    sentences: Sequence[str] = ("",),
    groups: Sequence[str] = ("",),
    factor: float = 1.0,
) -> Figure:
    """Draw one line per objective, in one panel per data set or, with several groups of classes, per data set and group."""
    found, styles = over_seeds(curves, [monitor], groups), line_styles(curves["objective"])
    by, title = (["dataset", "group"], "{}, {} classes") if len(groups) > 1 else (["dataset"], "{}")
    return by_epoch(found, by, title, "objective", styles, label, sentences, factor)


def over_seeds(curves: pd.DataFrame, monitors: Sequence[str], groups: Sequence[str] = ("",)) -> pd.DataFrame:
    """Compute the mean and t interval over seeds for each objective, monitor, group of classes and epoch with values."""
    parts = []
    for monitor, group in itertools.product(monitors, groups):
        part = curves.reindex(columns=[*KEYS, f"{monitor} {group}".strip()]).set_axis([*KEYS, "value"], axis=1)
        parts.append(part.assign(monitor=monitor, group=group))
    values = pd.concat(parts).dropna(subset="value").groupby([*KEYS, "monitor", "group"], sort=False)["value"]
    found = values.agg(seeds="count", mean="mean", deviation="std").reset_index()
    half = half_interval(found["deviation"], found["seeds"])
    return found.assign(low=found["mean"] - half, high=found["mean"] + half)


def by_epoch(
    found: pd.DataFrame,
    by: Sequence[str],
    title: str,
    line: str,
    styles: Mapping[str, LineStyle],
    label: str,
    sentences: Sequence[str],
    factor: float = 1.0,
) -> Figure:
    """Draw lines with bands; the alternative text gives each line's value at its last epoch."""
    from matplotlib.ticker import MaxNLocator

    empty = "No objective of this study has these values."
    labels: dict[str, Any] = {"title": title, "xlabel": "Epoch", "ylabel": label, "empty": empty}
    figure, parts = facets(found, *by, size=(2.8, 2.4), share=len(by) > 1, **labels)
    shown = {name: style for name, style in styles.items() if name in set(found[line])}
    for plot, _, part in parts:
        for place, (name, style) in enumerate(shown.items()):
            own = part[part[line] == name]
            spacing = max(1, len(own) // 6)
            # Use few markers, and stagger them so that they do not overlap.
            markers: dict[str, Any] = {"markevery": (place * spacing // len(shown), spacing), "markersize": 4.5}
            draw_intervals(plot, own, style, x="epoch", factor=factor, band=True, label=name, **markers)
        plot.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    add_style_legend(figure, shown)
    last = found.groupby(["monitor", "group", "objective", "dataset"], sort=False).last().reset_index()
    places = (last["objective"] + ", " + last["dataset"] + ", " + last["monitor"] + " " + last["group"]).str.strip()
    texts = "; ".join(f"{place} {mean:.3g}" for place, mean in zip(places, last["mean"], strict=True))
    described = f"{label} by epoch. At the last epoch, mean over seeds: {texts or 'no values'}."
    return finish(figure, [sentences[0], f"Bands: {INTERVAL} ({seed_count(found['seeds'])}).", *sentences[1:]], described)

"""The class probability that a language model tells from the text alone, beside the one that is known."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import Drawing
from trueneg.report.drawing import COLOURS, MARKERS, LineStyle, add_legend, finish, legend_handle, panels
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import with_interval
from trueneg.specs.settings import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = 70
TABLE = "class_probabilities.parquet"
KINDS = {"positive": "affirms a finding", "negated": "denies one", "filler": "neither"}


def drawings(study: Study) -> list[Drawing]:
    """Of an image–text study whose class probabilities are known."""
    if not isinstance(study, ImageTextStudy) or study.dataset.source != "phantom":
        return []
    title = "The language model's class probability beside the known one"
    caption = "The nearer to a rising line, the better a likelihood tells how common a class is."
    return [Drawing("eta_by_class", draw, title, caption, ("study.yaml", TABLE))]


def draw(gathered: Gathered) -> "Figure":
    """Of the study's classes."""
    return eta_by_class(gathered.read(TABLE), gathered.own_note)


def eta_by_class(classes: pd.DataFrame, note: str = "") -> "Figure":
    """η_LM of a class's sentences (median, 5th to 95th percentile) against the class's probability, both by logarithm.

    On the diagonal the language model tells the class probability itself; a rank correlation of 1 would be enough for the
    log-linear assumption with another a and k.
    """
    known = classes[(classes["image probability"] > 0) & (classes["eta"] > 0) & (classes["sentences"] > 0)]
    if known.empty:
        raise ValueError("class probabilities hold no class with a probability and a sentence; there is nothing to draw.")
    figure, axes = panels(width=6.2, height=5.6)
    plot = axes[0, 0]
    handles, names, texts = [], [], []
    for place, (kind, meaning) in enumerate(KINDS.items()):
        own = known[known["kind"] == kind]
        if own.empty:
            continue
        colour, marker = COLOURS[1 + place], MARKERS[place]
        ends = own[["eta low", "eta high"]].to_numpy().T
        reach = np.abs(np.clip(ends, 1e-12, None) - own["eta"].to_numpy())
        x, y = own["image probability"], own["eta"]
        plot.errorbar(x, y, yerr=reach, linestyle="none", color=colour, elinewidth=0.9, capsize=0, alpha=0.45)
        plot.scatter(x, y, s=28, color=colour, marker=marker, label=kind, zorder=3, linewidths=0)
        handles.append(legend_handle(LineStyle(colour, marker, ""), line=False))
        names.append(f"{meaning}: ρ {_correlation(own)}")
        texts.append(f"{kind}: {len(own)} classes, ρ {_correlation(own)}")
    plot.set_xscale("log")
    plot.set_yscale("log")
    shared = [max(plot.get_xlim()[0], plot.get_ylim()[0]), min(plot.get_xlim()[1], plot.get_ylim()[1])]
    limits = plot.get_xlim(), plot.get_ylim()
    (diagonal,) = plot.plot(shared, shared, color="0.1", linewidth=1, linestyle=(0, (5, 1.5)))
    plot.set_xlim(limits[0])
    plot.set_ylim(limits[1])
    plot.set_xlabel("Known class probability: share of images that it is true of")
    plot.set_ylabel("η of the language model")
    add_legend(figure, [*handles, diagonal], [*names, "equal"])
    plot.set_title(f"all {len(known)} classes: ρ {_correlation(known)}", loc="left")
    about = (
        "A point a class: median over its sentences, bars from the 5th to the 95th percentile. "
        "ρ: Spearman's over classes, with its 95 % interval (Bonett and Wright, 2000)."
    )
    texts.insert(0, f"{len(known)} classes: ρ {_correlation(known)}")
    return finish(figure, [about, note], f"Class probability of the language model against the known one, {'; '.join(texts)}.")


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    r"""Spearman's ρ with its 95 % interval (Bonett and Wright, 2000).

    .. math:: \tanh\Bigl(\operatorname{artanh} \rho \pm z_{0.975} \sqrt{\frac{1 + \rho^2 / 2}{n - 3}}\Bigr)

    Args:
        first: n values.
        second: n values.

    Returns:
        ρ, low, high; NaN where there are fewer than four pairs or one side does not vary.

    Example:
        >>> [round(value, 2) for value in rank_correlation([1, 2, 3, 4, 5, 6], [2, 1, 3, 4, 6, 5])]
        [0.89, 0.07, 0.99]
    """
    count = len(first)
    if count < 4 or len(set(first)) < 2 or len(set(second)) < 2:
        return float("nan"), float("nan"), float("nan")
    found = float(stats.spearmanr(first, second).statistic)
    inside = np.clip(found, -1 + 1e-12, 1 - 1e-12)  # artanh of 1 is infinite
    half = stats.norm.ppf(0.975) * np.sqrt((1 + found**2 / 2) / (count - 3))
    low, high = np.tanh(np.arctanh(inside) + np.array([-half, half]))
    return found, float(low), float(high)


def _correlation(classes: pd.DataFrame) -> str:
    found = rank_correlation(list(classes["eta"]), list(classes["image probability"]))
    return with_interval(*found, "ρ", signed=True)

"""The class probability that a language model estimates from text alone, against the known one."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy

from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import Drawing
from trueneg.report.drawing import COLOURS, MARKERS, Figure, LineStyle, add_legend, finish, panels
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import with_interval
from trueneg.report.plots import draw_intervals
from trueneg.specs.pairs.phantom import PhantomPairSettings
from trueneg.specs.settings import Study

ORDER = 70
TABLE = "class_probabilities.parquet"
EQUAL = LineStyle("0.1", "", (0, (5, 1.5)))
KINDS = {"positive": "affirms a finding", "negated": "denies a finding", "filler": "neither"}
STYLES = {kind: LineStyle(COLOURS[1 + place], MARKERS[place], "") for place, kind in enumerate(KINDS)}


def drawings(study: Study) -> list[Drawing]:
    """Declare the figure of an image–text study with known class probabilities."""
    if not isinstance(study, ImageTextStudy) or not isinstance(study.dataset, PhantomPairSettings):
        return []
    title = "Class probability of the language model against the known one"
    caption = "The closer the points are to a rising line, the better the likelihood predicts how common a class is."
    return [Drawing("eta_by_class", eta_by_class, title, caption, ("study.yaml", TABLE))]


def eta_by_class(gathered: Gathered) -> Figure:
    """Plot η_LM of a class's sentences (median, 5th to 95th percentile) against the class's probability, on log–log axes.

    On the diagonal, η_LM equals the class probability; on another rising straight line, the log-linear assumption would hold with
    another a and k.
    """
    classes = gathered.read(TABLE)
    classes = classes[(classes["image probability"] > 0) & (classes["eta"] > 0) & (classes["sentences"] > 0)]
    classes = classes.assign(low=classes["eta low"], high=classes["eta high"])
    figure, [[plot]] = panels(width=6.2, height=5.6)
    shown, texts = {}, [f"{len(classes)} classes: ρ {_correlation(classes)}"]
    styles = {kind: style for kind, style in STYLES.items() if kind in set(classes["kind"])}
    draw_intervals(plot, classes, styles, by="kind", x="image probability", y="eta", capsize=0)
    for kind, style in styles.items():
        of_kind = classes[classes["kind"] == kind]
        shown[f"{KINDS[kind]}: ρ {_correlation(of_kind)}"] = style
        texts.append(f"{kind}: {len(of_kind)} classes, ρ {_correlation(of_kind)}")
    plot.set(xscale="log", yscale="log", xlabel="Known class probability: fraction of matching images")
    plot.set(ylabel="η of the language model", xlim=plot.get_xlim(), ylim=plot.get_ylim())  # freeze the limits
    plot.axline((1e-3, 1e-3), (1, 1), color=EQUAL.color, linewidth=1, linestyle=EQUAL.linestyle)
    add_legend(figure, shown | {"equal": EQUAL})
    plot.set_title(f"all {texts[0]}", loc="left")
    about = (
        "One point per class: median over its sentences, with bars from the 5th to the 95th percentile. "
        "ρ: Spearman's correlation over classes, with its 95 % interval (Bonett and Wright, 2000)."
    )
    described = f"Class probability of the language model against the known one, {'; '.join(texts)}."
    return finish(figure, [about, gathered.study_note], described)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    r"""Compute Spearman's ρ with its 95 % interval (Bonett and Wright, 2000).

    .. math:: \tanh\Bigl(\operatorname{artanh} \rho \pm z_{0.975} \sqrt{\frac{1 + \rho^2 / 2}{n - 3}}\Bigr)

    Args:
        first: n values.
        second: n values, paired with the first.

    Returns:
        ρ, low, high; NaN if there are fewer than four pairs or if either input is constant.

    Example:
        >>> [round(value, 2) for value in rank_correlation([1, 2, 3, 4, 5, 6], [2, 1, 3, 4, 6, 5])]
        [0.89, 0.07, 0.99]
    """
    count = len(first)
    if count < 4 or len(set(first)) < 2 or len(set(second)) < 2:
        return float("nan"), float("nan"), float("nan")
    rho = float(scipy.stats.spearmanr(first, second).statistic)
    inside = np.clip(rho, -1 + 1e-12, 1 - 1e-12)  # artanh(1) is infinite
    half = scipy.stats.norm.ppf(0.975) * np.sqrt((1 + rho**2 / 2) / (count - 3))
    low, high = np.tanh(np.arctanh(inside) + np.array([-half, half]))
    return rho, float(low), float(high)


def _correlation(classes: pd.DataFrame) -> str:
    rho, low, high = rank_correlation(list(classes["eta"]), list(classes["image probability"]))
    return with_interval(rho, low, high, "ρ", signed=True)

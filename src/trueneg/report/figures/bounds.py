"""Figures of Proposition 1, Lemma 2, Theorem 4, and DCL's two bounds."""

from typing import Any

import numpy as np
import pandas as pd

from trueneg.config.theory_study import TheoryStudy
from trueneg.report.declared import Drawing, of_experiment
from trueneg.report.drawing import Figure, LineStyle, add_style_legend, finish, line_styles, panels
from trueneg.report.experiment_lines import AXES, BAND, draw_sampled, unmarked
from trueneg.report.gathered import Gathered
from trueneg.report.plots import facets, forest
from trueneg.specs.settings import Study

ORDER = 30
DEBIASED, DEBIASED_STYLE = "asymptotic debiased loss", LineStyle("#0072b2", "o", "-")
SUPERVISED = {
    "mean classifier, all classes": LineStyle("#d55e00", "", "-"),
    "mean classifier, pairs of classes": LineStyle("#d55e00", "", (0, (5, 1.5))),
    "best linear classifier": LineStyle("#d55e00", "", ":"),
}
SMOOTH_BOUND = {
    "estimate": "Estimate g",
    "anchors with gradient": "Anchors whose negatives\nget a gradient (%)",
    "relative gradient": "Gradient on negatives,\nrelative to CL",
}


def drawings(study: Study) -> list[Drawing]:
    """Declare the figures of bounds for a theory study."""
    if not isinstance(study, TheoryStudy):
        return []
    return [
        of_experiment(
            approximation_errors,
            "Proposition 1: the approximation error under its bound",
            "The bound lies orders of magnitude above the error, and mostly above what is trivially true.",
        ),
        of_experiment(
            supervised_bound,
            "Lemma 2 on digits",
            "The asymptotic debiased loss is above the mean classifier's, as the lemma says, and rises with log N.",
        ),
        of_experiment(
            generalisation_terms,
            "Theorem 4's terms",
            "The complexity term alone is far above the loss of a classifier that knows nothing: the bound is vacuous.",
        ),
        of_experiment(
            smooth_bound,
            "DCL's hard and smooth bound",
            "The smooth bound lowers the gradient and delays the point at which anchors are switched off; it does not remove it.",
        ),
    ]


def approximation_errors(gathered: Gathered) -> Figure:
    """Plot the measured |L − L̄| with Proposition 1's bound and the trivial bound; one row per temperature, one column per M."""
    frame = gathered.experiment("approximation_errors").sort_values("positives", kind="stable")
    frame = frame.sort_values("temperature", ascending=False, kind="stable")
    styles = line_styles(frame["objective"])
    labels: dict[str, Any] = {"xlabel": AXES["negatives"].label, "ylabel": "Nats"}
    figure, found = facets(frame, "temperature", "positives", size=(2.7, 2.5), title="t = {:g}, M = {}", **labels)
    for plot, _, part in found:
        by_quantity = dict(list(part.groupby("quantity")))
        draw_sampled(plot, by_quantity["|L − L̄|"], "objective", styles, x="negatives")
        for name, bound in by_quantity["Proposition 1"].groupby("objective"):
            look: dict[str, Any] = {"color": styles[str(name)].color, "linestyle": styles[str(name)].linestyle, "linewidth": 0.9}
            plot.plot(bound["negatives"], bound["value"], **look)
        trivial = by_quantity["trivial bound"].groupby("negatives")["value"].agg(["min", "max"])
        plot.fill_between(trivial.index, trivial["min"], trivial["max"], color="0.75")
        plot.set(xscale="log", yscale="log")
    add_style_legend(figure, styles)
    about = (
        f"Lines with markers: |L − L̄| measured. {BAND} Thin lines above: Proposition 1. Grey: what is trivially true; a "
        "bound above it says nothing."
    )
    largest = frame.loc[frame["quantity"] == "|L − L̄|", "value"].max()
    return finish(figure, [about, gathered.study.note], f"Approximation errors, largest {largest:.3g}, under their bounds.")


def supervised_bound(gathered: Gathered) -> Figure:
    """Plot Lemma 2 on a labelled data set: the asymptotic debiased loss against N, above the mean classifier's loss."""
    frame = gathered.experiment("supervised_bound").sort_values("imbalance", kind="stable")
    labels: dict[str, Any] = {"title": "r = {:g}", "xlabel": "Negatives N", "ylabel": "Loss (nats)"}
    figure, found = facets(frame, "imbalance", size=(2.6, 2.6), columns=frame["imbalance"].nunique(), share=True, **labels)
    for plot, _, part in found:
        loss = part[part["quantity"] == DEBIASED].sort_values("negatives")
        promised = loss[loss["promised"]]
        look: dict[str, Any] = {"color": DEBIASED_STYLE.color, "marker": DEBIASED_STYLE.marker}
        plot.plot(loss["negatives"], loss["value"], markerfacecolor="white", **look)
        plot.plot(promised["negatives"], promised["value"], linestyle="none", **look)
        for name, style in SUPERVISED.items():
            level = part.loc[part["quantity"] == name, "value"].iloc[0]
            plot.axhline(level, color=style.color, linestyle=style.linestyle)
        plot.set_xscale("log")
    add_style_legend(figure, {DEBIASED: DEBIASED_STYLE} | SUPERVISED)
    about = "Filled: N at which Lemma 2 promises a loss above the mean classifier's. Computed exactly."
    supervised = frame[frame["quantity"].isin(SUPERVISED)]
    values = "; ".join(f"{row['quantity']} {row['value']:.3g} at r = {row['imbalance']:g}" for _, row in supervised.iterrows())
    return finish(figure, [about, gathered.study.note], f"Asymptotic debiased loss over supervised losses: {values}.")


def generalisation_terms(gathered: Gathered) -> Figure:
    """Plot the terms of Theorem 4 on a logarithmic axis; a bound to the right of the line at log C is vacuous."""
    frame = gathered.experiment("generalisation_terms")
    reference = "log C: knowing nothing"
    terms = [name for name in dict.fromkeys(frame["term"]) if name != reference]
    figure, axes = panels(height=1.6 + 0.5 * len(terms))
    plot = axes[0, 0]
    styles = line_styles(frame["encoders"])
    exact = frame.set_index("term").assign(low=np.nan, high=np.nan)  # computed, not sampled
    tables = {name: exact[exact["encoders"] == name] for name in styles}
    forest(plot, tables, styles, terms, spread=0.25 * (len(styles) - 1) / 2, y="value")
    plot.axvline(frame.loc[frame["term"] == reference, "value"].iloc[0], color="0.1", linewidth=1)
    plot.set(xscale="log", xlabel="Nats; the line is log C, the loss of a classifier that knows nothing")
    add_style_legend(figure, styles, line=False, title="Encoders")
    values = "; ".join(f"{row.encoders}: {row.term} {row.value:.3g}" for row in frame.itertuples())
    about = "Constants that the theorem hides are those of its proof, else 1."
    return finish(figure, [about, gathered.study.note], f"Terms of Theorem 4: {values}.")


def smooth_bound(gathered: Gathered) -> Figure:
    """Plot DCL's estimate, anchors with gradient and gradient against the positive's cosine, with a hard and a smooth bound."""
    frame = gathered.experiment("smooth_bound").sort_values("class_probability", kind="stable")
    styles = unmarked(line_styles(frame["bound"]))
    frame = frame[frame["quantity"].isin(SMOOTH_BOUND)]
    frame = frame.assign(quantity=pd.Categorical(frame["quantity"], list(SMOOTH_BOUND))).sort_values("quantity", kind="stable")
    figure, found = facets(frame, "quantity", "class_probability", size=(3.3, 2.0), xlabel="Cosine of the positive")
    for plot, (quantity, eta), part in found:
        draw_sampled(plot, part, "bound", styles, x="cosine", factor=100 if quantity == "anchors with gradient" else 1)
        place: Any = plot.get_subplotspec()
        plot.set_title(f"η = {eta:g}" if place.is_first_row() else "")
        plot.set_ylabel(SMOOTH_BOUND[quantity] if place.is_first_col() else "")
    add_style_legend(figure, styles)
    described = "Estimate and gradient of DCL with a hard and a smooth bound against the positive's cosine."
    return finish(figure, [BAND, gathered.study.note], described)

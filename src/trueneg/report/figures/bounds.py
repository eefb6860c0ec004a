"""Figures of Proposition 1, Lemma 2 and Theorem 4."""

import numpy as np

from trueneg.report.declared import ExperimentDrawings
from trueneg.report.drawing import (
    Figure,
    LineStyle,
    add_legend,
    dots,
    finish,
    line_styles,
    panels,
    unmarked,
)
from trueneg.report.gathered import Gathered
from trueneg.report.plots import BAND, draw_sampled, facets, forest
from trueneg.specs.kinds.experiments import ExperimentStudy

ORDER = 30
KIND = ExperimentStudy
DEBIASED = "asymptotic debiased loss"
DEBIASED_STYLE = LineStyle("#0072b2", "o", "-")
SUPERVISED = {
    "mean classifier, all classes": LineStyle("#d55e00", "", "-"),
    "mean classifier, pairs of classes": LineStyle("#d55e00", "", (0, (5, 1.5))),
    "best linear classifier": LineStyle("#d55e00", "", ":"),
}
drawings = ExperimentDrawings()


@drawings.add(
    "Proposition 1: the approximation error and its bound",
    "The bound is orders of magnitude above the error, and mostly above the trivial bound.",
)
def approximation_errors(gathered: Gathered) -> Figure:
    """Plot the measured |L − L̄|, Proposition 1's bound and the trivial bound: one row per t, one
    column per M (positives).
    """
    frame = gathered.experiment("approximation_errors").sort_values("positives", kind="stable")
    frame = frame.sort_values("temperature", ascending=False, kind="stable")
    styles = line_styles(frame["objective"])
    figure, parts = facets(
        frame,
        "temperature",
        "positives",
        size=(2.7, 2.5),
        title="t = {:g}, M = {}",
        xlabel="Negatives per anchor, N",
        ylabel="Nats",
    )
    for plot, _, part in parts:
        draw_sampled(plot, part.query("quantity == '|L − L̄|'"), styles, "objective", "negatives")
        for name, bound in part.query("quantity == 'Proposition 1'").groupby("objective"):
            plot.plot(
                bound["negatives"],
                bound["value"],
                linewidth=0.9,
                **unmarked(styles)[str(name)]._asdict(),
            )
        trivial = part.query("quantity == 'trivial bound'").groupby("negatives")["value"]
        plot.fill_between(trivial.min().index, trivial.min(), trivial.max(), color="0.75")
        plot.set(xscale="log", yscale="log")
    add_legend(figure, styles)
    return finish(
        figure,
        f"Lines with markers: measured |L − L̄|. {BAND} Thin lines above: Proposition 1. Grey:"
        " trivial bound; a bound above it is uninformative.",
        gathered.study_note,
    )


@drawings.add(
    "Lemma 2 on digits",
    "The asymptotic debiased loss is above the mean classifier's loss, as the lemma states, and"
    " rises with log N.",
)
def supervised_bound(gathered: Gathered) -> Figure:
    """Plot Lemma 2 on a labelled data set: the asymptotic debiased loss against N, above the mean
    classifier's loss.
    """
    frame = gathered.experiment("supervised_bound").sort_values("imbalance", kind="stable")
    figure, parts = facets(
        frame,
        "imbalance",
        size=(2.6, 2.6),
        columns=frame["imbalance"].nunique(),
        share=True,
        title="r = {:g}",
        xlabel="Negatives N",
        ylabel="Loss (nats)",
    )
    look = DEBIASED_STYLE._asdict()
    for plot, _, part in parts:
        loss = part[part["quantity"] == DEBIASED].sort_values("negatives")
        promised = loss.query("promised")
        plot.plot(loss["negatives"], loss["value"], label=DEBIASED, markerfacecolor="white", **look)
        plot.plot(promised["negatives"], promised["value"], **look | {"linestyle": "none"})
        levels = part.set_index("quantity")["value"]
        for name, style in SUPERVISED.items():
            plot.axhline(levels[name], color=style.color, linestyle=style.linestyle)
        plot.set_xscale("log")
    add_legend(figure, {DEBIASED: DEBIASED_STYLE} | SUPERVISED)
    return finish(
        figure,
        "Filled markers: values of N for which Lemma 2 guarantees a loss above the mean"
        " classifier's. Computed exactly.",
        gathered.study_note,
    )


@drawings.add(
    "Terms of Theorem 4",
    "The complexity term alone is far above the loss of an uninformed classifier: the bound is"
    " vacuous.",
)
def generalisation_terms(gathered: Gathered) -> Figure:
    """Plot the terms of Theorem 4 on a logarithmic axis; a bound to the right of the line at log C
    is vacuous.
    """
    # computed, not sampled
    frame = gathered.experiment("generalisation_terms").assign(low=np.nan, high=np.nan)
    reference = frame.query("term == 'log C (no information)'")
    terms = [*frame["term"].drop(reference.index).unique()]
    figure, [[plot]] = panels(height=1.6 + 0.5 * len(terms))
    styles = line_styles(frame["encoders"])
    forest(plot, frame, styles, "encoders", terms, row="term", y="value", apart=8)
    plot.axvline(reference["value"].iloc[0], color="0.1", linewidth=1)
    plot.set(xscale="log", xlabel="Nats; the line is log C, the loss of an uninformed classifier")
    add_legend(figure, {f"encoders: {name}": style for name, style in dots(styles).items()})
    return finish(
        figure,
        "Constants that the theorem leaves out are those of its proof, or 1 where the proof"
        " gives none.",
        gathered.study_note,
    )

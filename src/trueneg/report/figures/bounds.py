"""Proposition 1, Lemma 2, Theorem 4, and DCL's two bounds."""

from typing import TYPE_CHECKING

import numpy as np

from trueneg.config.theory_study import TheoryStudy
from trueneg.report.declared import Drawing, of_experiment
from trueneg.report.drawing import LineStyle, add_style_legend, finish, line_styles, panels
from trueneg.report.experiment_lines import AXES, BAND, draw_sampled, unmarked
from trueneg.report.gathered import Gathered
from trueneg.report.plots import forest
from trueneg.specs.settings import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = 30


def drawings(study: Study) -> list[Drawing]:
    """Of every theory study."""
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


def approximation_errors(gathered: Gathered) -> "Figure":
    """|L − L̄| measured, under Proposition 1's bound and the trivial one: a row a temperature, a column an M."""
    frame = gathered.experiment("approximation_errors")
    temperatures, counts = (sorted(frame[name].unique(), reverse=name == "temperature") for name in ("temperature", "positives"))
    styles = line_styles(frame["objective"])
    figure, axes = panels(len(temperatures), len(counts), width=2.7 * len(counts) + 0.8, height=2.5 * len(temperatures) + 1.4)
    for line, temperature in zip(axes, temperatures, strict=True):
        for plot, count in zip(line, counts, strict=True):
            panel = frame[(frame["temperature"] == temperature) & (frame["positives"] == count)]
            for name, style in styles.items():
                of_objective = panel[panel["objective"] == name]
                draw_sampled(plot, of_objective[of_objective["quantity"] == "|L − L̄|"], style, x="negatives")
                bound = of_objective[of_objective["quantity"] == "Proposition 1"]
                plot.plot(bound["negatives"], bound["value"], color=style.color, linestyle=style.linestyle, linewidth=0.9)
            trivial = panel[panel["quantity"] == "trivial bound"].groupby("negatives")["value"]
            plot.fill_between(*zip(*trivial.min().items(), strict=True), trivial.max(), color="0.75")
            plot.set_xscale("log")
            plot.set_yscale("log")
            plot.set_title(f"t = {temperature:g}, M = {count}")
        line[0].set_ylabel("Nats")
    for plot in axes[-1]:
        plot.set_xlabel(AXES["negatives"].label)
    add_style_legend(figure, styles)
    about = (
        f"Lines with markers: |L − L̄| measured. {BAND} Thin lines above: Proposition 1. Grey: what is trivially true; a "
        "bound above it says nothing."
    )
    found = frame[frame["quantity"] == "|L − L̄|"]
    return finish(
        figure, [about, gathered.study.note], f"Approximation errors, largest {found['value'].max():.3g}, under their bounds."
    )


def supervised_bound(gathered: Gathered) -> "Figure":
    """Lemma 2 on a labelled set: the asymptotic debiased loss against N, over the mean classifier's loss."""
    frame = gathered.experiment("supervised_bound")
    imbalances = sorted(frame["imbalance"].unique())
    figure, axes = panels(1, len(imbalances), width=2.6 * len(imbalances) + 0.8, height=3.9, share=True)
    lines = {
        "mean classifier, all classes": "-",
        "mean classifier, pairs of classes": (0, (5, 1.5)),
        "best linear classifier": ":",
    }
    for plot, imbalance in zip(axes[0], imbalances, strict=True):
        part = frame[frame["imbalance"] == imbalance]
        loss = part[part["quantity"] == "asymptotic debiased loss"].sort_values("negatives")
        plot.plot(loss["negatives"], loss["value"], color="#0072b2", marker="o", markerfacecolor="white")
        promised = loss[loss["promised"]]
        plot.plot(promised["negatives"], promised["value"], color="#0072b2", marker="o", linestyle="none")
        for name, dash in lines.items():
            plot.axhline(part.loc[part["quantity"] == name, "value"].iloc[0], color="#d55e00", linestyle=dash)
        plot.set_xscale("log")
        plot.set_title(f"r = {imbalance:g}")
        plot.set_xlabel("Negatives N")
    axes[0, 0].set_ylabel("Loss (nats)")
    dashed = {name: LineStyle("#d55e00", "", dash) for name, dash in lines.items()}
    add_style_legend(figure, {"asymptotic debiased loss": LineStyle("#0072b2", "o", "-")} | dashed)
    about = "Filled: N at which Lemma 2 promises a loss above the mean classifier's. Computed exactly."
    values = "; ".join(
        f"{row.quantity} {row.value:.3g} at r = {row.imbalance:g}" for row in frame.itertuples() if row.quantity in lines
    )
    return finish(figure, [about, gathered.study.note], f"Asymptotic debiased loss over supervised losses: {values}.")


def generalisation_terms(gathered: Gathered) -> "Figure":
    """Theorem 4's terms on a logarithmic axis; right of the line, log C, a bound says nothing."""
    frame = gathered.experiment("generalisation_terms")
    reference = "log C: knowing nothing"
    encoders = list(dict.fromkeys(frame["encoders"]))
    terms = [name for name in dict.fromkeys(frame["term"]) if name != reference]
    figure, axes = panels(height=1.6 + 0.5 * len(terms))
    plot = axes[0, 0]
    styles = line_styles(encoders)
    exact = frame.set_index("term").assign(low=np.nan, high=np.nan)  # computed, not sampled
    tables = {name: exact[exact["encoders"] == name] for name in encoders}
    forest(plot, tables, styles, terms, spread=0.25 * (len(encoders) - 1) / 2, y="value")
    plot.axvline(frame.loc[frame["term"] == reference, "value"].iloc[0], color="0.1", linewidth=1)
    plot.set_xscale("log")
    plot.set_xlabel("Nats; the line is log C, the loss of a classifier that knows nothing")
    add_style_legend(figure, styles, line=False, title="Encoders")
    values = "; ".join(f"{row.encoders}: {row.term} {row.value:.3g}" for row in frame.itertuples())
    return finish(
        figure,
        ["Constants that the theorem hides are those of its proof, else 1.", gathered.study.note],
        f"Terms of Theorem 4: {values}.",
    )


def smooth_bound(gathered: Gathered) -> "Figure":
    """DCL with its hard and its smooth bound against the positive's cosine: estimate, anchors with gradient, gradient."""
    frame = gathered.experiment("smooth_bound")
    rows = {
        "estimate": "Estimate g",
        "anchors with gradient": "Anchors whose negatives\nget a gradient (%)",
        "relative gradient": "Gradient on negatives,\nrelative to CL",
    }
    etas = sorted(frame["class_probability"].unique())
    styles = unmarked(line_styles(frame["bound"]))
    figure, axes = panels(len(rows), len(etas), width=3.3 * len(etas) + 0.6, height=7.2)
    for line, (quantity, label) in zip(axes, rows.items(), strict=True):
        for plot, eta in zip(line, etas, strict=True):
            part = frame[(frame["quantity"] == quantity) & (frame["class_probability"] == eta)]
            for name, of_bound in part.groupby("bound"):
                factor = 100 if quantity == "anchors with gradient" else 1
                draw_sampled(plot, of_bound, styles[name], x="cosine", factor=factor)
            plot.set_title(f"η = {eta:g}" if quantity == "estimate" else "")
        line[0].set_ylabel(label)
    for plot in axes[-1]:
        plot.set_xlabel("Cosine of the positive")
    add_style_legend(figure, styles)
    return finish(
        figure,
        [BAND, gathered.study.note],
        "Estimate and gradient of DCL with a hard and a smooth bound against the positive's cosine.",
    )

"""Proposition 1, Lemma 2, Theorem 4, and DCL's two bounds."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from trueneg.report.drawing import STYLE, LineStyle, add_legend, finish, legend_handle, line_styles, panels
from trueneg.report.theory.lines import BAND, PARAMETERS, draw_line, line_handle


@matplotlib.rc_context(STYLE)
def approximation_errors(frame: pd.DataFrame, note: str = "") -> Figure:
    """|L − L̄| measured, under Proposition 1's bound and the trivial one: a row a temperature, a column an M."""
    temperatures, counts = (sorted(frame[name].unique(), reverse=name == "temperature") for name in ("temperature", "positives"))
    styles = line_styles(frame["objective"])
    figure, axes = panels(len(temperatures), len(counts), width=2.7 * len(counts) + 0.8, height=2.5 * len(temperatures) + 1.4)
    for line, temperature in zip(axes, temperatures, strict=True):
        for plot, count in zip(line, counts, strict=True):
            panel = frame[(frame["temperature"] == temperature) & (frame["positives"] == count)]
            for name, style in styles.items():
                of_objective = panel[panel["objective"] == name]
                draw_line(plot, of_objective[of_objective["quantity"] == "|L − L̄|"], "negatives", "value", style)
                bound = of_objective[of_objective["quantity"] == "Proposition 1"]
                plot.plot(bound["negatives"], bound["value"], color=style.color, linestyle=style.linestyle, linewidth=0.9)
            trivial = panel[panel["quantity"] == "trivial bound"].groupby("negatives")["value"]
            plot.fill_between(*zip(*trivial.min().items(), strict=True), trivial.max(), color="0.75")
            plot.set_xscale("log")
            plot.set_yscale("log")
            plot.set_title(f"t = {temperature:g}, M = {count}")
        line[0].set_ylabel("Nats")
    for plot in axes[-1]:
        plot.set_xlabel(PARAMETERS["negatives"])
    add_legend(figure, [legend_handle(style) for style in styles.values()], list(styles))
    about = (
        f"Lines with markers: |L − L̄| measured. {BAND} Thin lines above: Proposition 1. Grey: what is trivially true; a "
        "bound above it says nothing."
    )
    found = frame[frame["quantity"] == "|L − L̄|"]
    return finish(figure, [about, note], f"Approximation errors, largest {found['value'].max():.3g}, under their bounds.")


@matplotlib.rc_context(STYLE)
def supervised_bound(frame: pd.DataFrame, note: str = "") -> Figure:
    """Lemma 2 on a labelled set: the asymptotic debiased loss against N, over the mean classifier's loss."""
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
    handles = [
        legend_handle(LineStyle("#0072b2", "o", "-")),
        *(line_handle(LineStyle("#d55e00", "", dash)) for dash in lines.values()),
    ]
    add_legend(figure, handles, ["asymptotic debiased loss", *lines])
    about = "Filled: N at which Lemma 2 promises a loss above the mean classifier's. Computed exactly."
    values = "; ".join(
        f"{row.quantity} {row.value:.3g} at r = {row.imbalance:g}" for row in frame.itertuples() if row.quantity in lines
    )
    return finish(figure, [about, note], f"Asymptotic debiased loss over supervised losses: {values}.")


@matplotlib.rc_context(STYLE)
def generalisation_terms(frame: pd.DataFrame, note: str = "") -> Figure:
    """Theorem 4's terms on a logarithmic axis; right of the line, log C, a bound says nothing."""
    reference = "log C: knowing nothing"
    encoders = list(dict.fromkeys(frame["encoders"]))
    terms = [name for name in dict.fromkeys(frame["term"]) if name != reference]
    figure, axes = panels(height=1.6 + 0.5 * len(terms))
    plot = axes[0, 0]
    for place, (name, style) in enumerate(line_styles(encoders).items()):
        part = frame[frame["encoders"] == name].set_index("term").loc[terms]
        position = np.arange(len(terms)) + 0.25 * (place - (len(encoders) - 1) / 2)
        plot.plot(part["value"], position, color=style.color, marker=style.marker, linestyle="none", label=name)
    plot.axvline(frame.loc[frame["term"] == reference, "value"].iloc[0], color="0.1", linewidth=1)
    plot.set_xscale("log")
    plot.set_yticks(range(len(terms)), terms)
    plot.set_ylim(len(terms) - 0.5, -0.5)
    plot.set_xlabel("Nats; the line is log C, the loss of a classifier that knows nothing")
    add_legend(figure, [legend_handle(style, line=False) for style in line_styles(encoders).values()], encoders, "Encoders")
    values = "; ".join(f"{row.encoders}: {row.term} {row.value:.3g}" for row in frame.itertuples())
    return finish(
        figure, ["Constants that the theorem hides are those of its proof, else 1.", note], f"Terms of Theorem 4: {values}."
    )


@matplotlib.rc_context(STYLE)
def smooth_bound(frame: pd.DataFrame, note: str = "") -> Figure:
    """DCL with its hard and its smooth bound against the positive's cosine: estimate, anchors with gradient, gradient."""
    rows = {
        "estimate": "Estimate g",
        "anchors with gradient": "Anchors whose negatives\nget a gradient (%)",
        "relative gradient": "Gradient on negatives,\nrelative to CL",
    }
    etas = sorted(frame["class_probability"].unique())
    styles = line_styles(frame["bound"])
    figure, axes = panels(len(rows), len(etas), width=3.3 * len(etas) + 0.6, height=7.2)
    for line, (quantity, label) in zip(axes, rows.items(), strict=True):
        for plot, eta in zip(line, etas, strict=True):
            part = frame[(frame["quantity"] == quantity) & (frame["class_probability"] == eta)]
            for name, of_bound in part.groupby("bound"):
                scale = 100 if quantity == "anchors with gradient" else 1
                draw_line(plot, of_bound, "cosine", "value", styles[name], marker=False, scale=scale)
            plot.set_title(f"η = {eta:g}" if quantity == "estimate" else "")
        line[0].set_ylabel(label)
    for plot in axes[-1]:
        plot.set_xlabel("Cosine of the positive")
    add_legend(figure, [line_handle(style) for style in styles.values()], list(styles))
    return finish(
        figure, [BAND, note], "Estimate and gradient of DCL with a hard and a smooth bound against the positive's cosine."
    )

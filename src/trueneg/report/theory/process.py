"""What the process looks like: densities, the density ratio with its jump, and the weights of BCL."""

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from trueneg.report.drawing import STYLE, add_legend, finish, legend_handle, line_styles, panels, say_empty
from trueneg.report.theory.lines import draw_line, line_handle


@matplotlib.rc_context(STYLE)
def class_conditional_densities(frame: pd.DataFrame, note: str = "") -> Figure:
    """Densities of true and false negatives over the normal base, a panel an α (BCL, Fig. 3)."""
    return _densities(frame, "score", "Score, in standard deviations of the base", note)


@matplotlib.rc_context(STYLE)
def observation_densities(frame: pd.DataFrame, note: str = "") -> Figure:
    """Densities of e^(x/t) over the uniform base, a panel an α (BCL, Fig. 4)."""
    return _densities(frame, "observation", "Observation exp(x/t)", note)


@matplotlib.rc_context(STYLE)
def density_ratio(frame: pd.DataFrame, note: str = "") -> Figure:
    """p⁺/p⁻ where the biased loss is optimal, with its jump (BCL, Fig. 1); grey where similarity cannot be."""
    figure, axes = panels()
    plot = axes[0, 0]
    probabilities = list(dict.fromkeys(frame["class_probability"]))
    styles = line_styles([f"τ⁺ = {value:g}" for value in probabilities])
    for value, style in zip(probabilities, styles.values(), strict=True):
        for branch, part in frame[frame["class_probability"] == value].groupby("branch"):
            color = style.color if branch == "attainable" else "0.6"
            plot.plot(part["similarity"], part["ratio"], color=color, linestyle=style.linestyle)
        plot.axvline(1 / value, color="0.8", linewidth=0.8)
    plot.set_xlim(0, frame["similarity"].max())
    plot.set_ylim(-40, 40)
    plot.set_xlabel("Similarity of the positive, in units of m")
    plot.set_ylabel("Density ratio p⁺/p⁻")
    add_legend(figure, [line_handle(style) for style in styles.values()], list(styles))
    about = "Grey: beyond the jump at m/τ⁺, where no similarity can be, since p⁺ is at most p_d/τ⁺."
    return finish(figure, [about, note], "The density ratio of equation 10 against similarity; it jumps from +∞ to −∞ at m/τ⁺.")


@matplotlib.rc_context(STYLE)
def importance_weights(frame: pd.DataFrame, note: str = "") -> Figure:
    """ω against the share of nearer negatives: a row a form of BCL, a column a β, a line an α."""
    forms, betas = list(dict.fromkeys(frame["form"])), sorted(frame["beta"].unique())
    styles = line_styles([f"α = {alpha:g}" for alpha in sorted(frame["alpha"].unique())])
    figure, axes = panels(len(forms), len(betas), width=2.6 * len(betas) + 0.8, height=2.1 * len(forms) + 1.2)
    for line, form in zip(axes, forms, strict=True):
        for plot, beta in zip(line, betas, strict=True):
            chosen = frame[(frame["form"] == form) & (frame["beta"] == beta)]
            plot.set_title(f"{form}, β = {beta:g}")
            if chosen.empty:
                say_empty(plot, "β from 0.5 to 1 in this form")
                continue
            for alpha, part in chosen.groupby("alpha"):
                draw_line(plot, part, "share", "weight", styles[f"α = {alpha:g}"], marker=False)
        line[0].set_ylabel("Weight ω")
    for plot in axes[-1]:
        plot.set_xlabel("Share at most as near, F_u")
    add_legend(figure, [line_handle(style) for style in styles.values()], list(styles))
    about = (
        "For any number of negatives. Without hardness (β = 0, in the released form ½) ω should be the density of true "
        "negatives over that of all, as in the consistent form."
    )
    return finish(figure, [about, note], f"Importance weights of {', '.join(forms)} against F_u.")


def _densities(frame: pd.DataFrame, x: str, label: str, note: str) -> Figure:
    alphas = sorted(frame["alpha"].unique())
    rows = -(-len(alphas) // 2)
    styles = line_styles(frame["population"])
    figure, axes = panels(rows, 2, width=7.2, height=1.2 + 2.2 * rows)
    for plot in axes.flat[len(alphas) :]:
        plot.set_axis_off()
    for plot, alpha in zip(axes.flat, alphas, strict=False):
        for name, style in styles.items():
            part = frame[(frame["alpha"] == alpha) & (frame["population"] == name)]
            exact, drawn = part[part["source"] == "closed form"], part[part["source"] != "closed form"]
            plot.plot(exact[x], exact["density"], color=style.color, linestyle=style.linestyle)
            plot.errorbar(
                drawn[x],
                drawn["density"],
                yerr=1.96 * drawn["standard error"],
                color=style.color,
                marker=style.marker,
                markersize=2.5,
                linestyle="none",
                elinewidth=0.6,
                capsize=0,
            )
        plot.set_title(f"α = {alpha:g}")
        plot.set_ylim(bottom=0)
    for plot in axes[-1]:
        plot.set_xlabel(label)
    for plot in axes[:, 0]:
        plot.set_ylabel("Density")
    add_legend(figure, [legend_handle(style) for style in styles.values()], list(styles))
    about = "Lines: closed form. Dots: drawn, with 95 % Monte-Carlo intervals."
    return finish(
        figure,
        [about, note],
        f"Densities of {' and '.join(styles)} against {label.lower()}, for α from {alphas[0]:g} to {alphas[-1]:g}.",
    )

"""What the process looks like: densities, the density ratio with its jump, and the weights of BCL."""

from typing import TYPE_CHECKING

import pandas as pd

from trueneg.config.theory_study import TheoryStudy
from trueneg.report.declared import Drawing, of_experiment
from trueneg.report.drawing import add_style_legend, finish, line_styles, panel_grid, panels, say_empty
from trueneg.report.experiment_lines import draw_sampled, unmarked
from trueneg.report.gathered import Gathered
from trueneg.specs.settings import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = 10


def drawings(study: Study) -> list[Drawing]:
    """Of every theory study."""
    if not isinstance(study, TheoryStudy):
        return []
    return [
        of_experiment(
            class_conditional_densities,
            "Densities of true and false negatives",
            "BCL's Fig. 3: the better the encoder ranks (α), the farther apart the two are; lines in closed form, dots drawn.",
        ),
        of_experiment(
            observation_densities,
            "Densities of the observations",
            "BCL's Fig. 4: what an estimator sees, in closed form and as a Gaussian kernel shows it, which blurs the ends.",
        ),
        of_experiment(
            density_ratio,
            "The density ratio that the biased loss estimates",
            "BCL's Fig. 1: the jump of equation 10 lies where no similarity can be; below it the ratio only grows.",
        ),
        of_experiment(
            importance_weights,
            "Importance weights by rank",
            "The printed formula puts the mixture's rank where the base's belongs: far negatives weigh too much.",
        ),
    ]


def class_conditional_densities(gathered: Gathered) -> "Figure":
    """Densities of true and false negatives over the normal base, a panel an α (BCL, Fig. 3)."""
    frame = gathered.experiment("class_conditional_densities")
    return _densities(frame, "score", "Score, in standard deviations of the base", gathered.study.note)


def observation_densities(gathered: Gathered) -> "Figure":
    """Densities of e^(x/t) over the uniform base, a panel an α (BCL, Fig. 4)."""
    frame = gathered.experiment("observation_densities")
    return _densities(frame, "observation", "Observation exp(x/t)", gathered.study.note)


def density_ratio(gathered: Gathered) -> "Figure":
    """p⁺/p⁻ where the biased loss is optimal, with its jump (BCL, Fig. 1); grey where similarity cannot be."""
    frame = gathered.experiment("density_ratio")
    figure, axes = panels()
    plot = axes[0, 0]
    probabilities = list(dict.fromkeys(frame["class_probability"]))
    styles = unmarked(line_styles([f"τ⁺ = {value:g}" for value in probabilities]))
    for value, style in zip(probabilities, styles.values(), strict=True):
        for branch, part in frame[frame["class_probability"] == value].groupby("branch"):
            color = style.color if branch == "attainable" else "0.6"
            plot.plot(part["similarity"], part["ratio"], color=color, linestyle=style.linestyle)
        plot.axvline(1 / value, color="0.8", linewidth=0.8)
    plot.set_xlim(0, frame["similarity"].max())
    plot.set_ylim(-40, 40)
    plot.set_xlabel("Similarity of the positive, in units of m")
    plot.set_ylabel("Density ratio p⁺/p⁻")
    add_style_legend(figure, styles)
    about = "Grey: beyond the jump at m/τ⁺, where no similarity can be, since p⁺ is at most p_d/τ⁺."
    return finish(
        figure,
        [about, gathered.study.note],
        "The density ratio of equation 10 against similarity; it jumps from +∞ to −∞ at m/τ⁺.",
    )


def importance_weights(gathered: Gathered) -> "Figure":
    """ω against the share of nearer negatives: a row a form of BCL, a column a β, a line an α."""
    frame = gathered.experiment("importance_weights")
    forms, betas = list(dict.fromkeys(frame["form"])), sorted(frame["beta"].unique())
    styles = unmarked(line_styles([f"α = {alpha:g}" for alpha in sorted(frame["alpha"].unique())]))
    figure, axes = panels(len(forms), len(betas), width=2.6 * len(betas) + 0.8, height=2.1 * len(forms) + 1.2)
    for line, form in zip(axes, forms, strict=True):
        for plot, beta in zip(line, betas, strict=True):
            chosen = frame[(frame["form"] == form) & (frame["beta"] == beta)]
            plot.set_title(f"{form}, β = {beta:g}")
            if chosen.empty:
                say_empty(plot, "β from 0.5 to 1 in this form")
                continue
            for alpha, part in chosen.groupby("alpha"):
                draw_sampled(plot, part, styles[f"α = {alpha:g}"], x="share", y="weight")
        line[0].set_ylabel("Weight ω")
    for plot in axes[-1]:
        plot.set_xlabel("Share at most as near, F_u")
    add_style_legend(figure, styles)
    about = (
        "For any number of negatives. Without hardness (β = 0, in the released form ½) ω should be the density of true "
        "negatives over that of all, as in the consistent form."
    )
    return finish(figure, [about, gathered.study.note], f"Importance weights of {', '.join(forms)} against F_u.")


def _densities(frame: pd.DataFrame, x: str, label: str, note: str) -> "Figure":
    alphas = sorted(frame["alpha"].unique())
    styles = line_styles(frame["population"])
    figure, axes = panel_grid(len(alphas), width=3.6, height=2.2, columns=2)
    for plot, alpha in zip(axes.flat, alphas, strict=False):
        for name, style in styles.items():
            part = frame[(frame["alpha"] == alpha) & (frame["population"] == name)]
            exact, drawn = part[part["source"] == "closed form"], part[part["source"] != "closed form"]
            plot.plot(exact[x], exact["density"], color=style.color, linestyle=style.linestyle)
            draw_sampled(plot, drawn, style, x=x, y="density", band=False, capsize=0, markersize=2.5, linestyle="none")
        plot.set_title(f"α = {alpha:g}")
        plot.set_ylim(bottom=0)
    for plot in axes[-1]:
        plot.set_xlabel(label)
    for plot in axes[:, 0]:
        plot.set_ylabel("Density")
    add_style_legend(figure, styles)
    about = "Lines: closed form. Dots: drawn, with 95 % Monte-Carlo intervals."
    return finish(
        figure,
        [about, note],
        f"Densities of {' and '.join(styles)} against {label.lower()}, for α from {alphas[0]:g} to {alphas[-1]:g}.",
    )

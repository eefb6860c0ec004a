"""Figures of the simulated process: densities, the density ratio with its jump, and the weights of BCL."""

from typing import Any

from trueneg.config.theory_study import TheoryStudy
from trueneg.report.declared import Drawing, of_experiment
from trueneg.report.drawing import Figure, add_style_legend, finish, line_styles, panels
from trueneg.report.experiment_lines import draw_sampled, unmarked
from trueneg.report.gathered import Gathered
from trueneg.report.plots import facets
from trueneg.specs.settings import Study

ORDER = 10


def drawings(study: Study) -> list[Drawing]:
    """Declare the figures of the simulated process for a theory study."""
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


def class_conditional_densities(gathered: Gathered) -> Figure:
    """Plot densities of true and false negatives over the normal base, one panel per α (BCL, Fig. 3)."""
    return _densities(gathered, "class_conditional_densities", "score", "Score, in standard deviations of the base")


def observation_densities(gathered: Gathered) -> Figure:
    """Plot densities of e^(x/t) over the uniform base, one panel per α (BCL, Fig. 4)."""
    return _densities(gathered, "observation_densities", "observation", "Observation exp(x/t)")


def density_ratio(gathered: Gathered) -> Figure:
    """Plot p⁺/p⁻ at the optimum of the biased loss, with its jump (BCL, Fig. 1); unattainable similarities are grey."""
    frame = gathered.experiment("density_ratio")
    figure, axes = panels()
    plot = axes[0, 0]
    styles = unmarked(line_styles(f"τ⁺ = {value:g}" for value in frame["class_probability"]))
    for (value, branch), part in frame.groupby(["class_probability", "branch"]):
        style = styles[f"τ⁺ = {value:g}"]
        color = style.color if branch == "attainable" else "0.6"
        plot.plot(part["similarity"], part["ratio"], color=color, linestyle=style.linestyle)
    for value in frame["class_probability"].unique():
        plot.axvline(1 / value, color="0.8", linewidth=0.8)
    plot.set(xlim=(0, frame["similarity"].max()), xlabel="Similarity of the positive, in units of m")
    plot.set(ylim=(-40, 40), ylabel="Density ratio p⁺/p⁻")
    add_style_legend(figure, styles)
    about = "Grey: beyond the jump at m/τ⁺, where no similarity can be, since p⁺ is at most p_d/τ⁺."
    described = "The density ratio of equation 10 against similarity; it jumps from +∞ to −∞ at m/τ⁺."
    return finish(figure, [about, gathered.study.note], described)


def importance_weights(gathered: Gathered) -> Figure:
    """Plot ω against the share of nearer negatives: one row per form of BCL, one column per β, one line per α."""
    frame = gathered.experiment("importance_weights")
    styles = unmarked(line_styles(f"α = {alpha:g}" for alpha in sorted(frame["alpha"].unique())))
    figure, found = facets(
        frame.assign(line=[f"α = {alpha:g}" for alpha in frame["alpha"]]),
        "form",
        "beta",
        size=(2.6, 2.1),
        title="{}, β = {:g}",
        xlabel="Share at most as near, F_u",
        ylabel="Weight ω",
        empty="β from 0.5 to 1 in this form",
    )
    for plot, _, part in found:
        draw_sampled(plot, part, "line", styles, x="share", y="weight")
    add_style_legend(figure, styles)
    about = (
        "For any number of negatives. Without hardness (β = 0, in the released form ½) ω should be the density of true "
        "negatives over that of all, as in the consistent form."
    )
    forms = ", ".join(dict.fromkeys(frame["form"]))
    return finish(figure, [about, gathered.study.note], f"Importance weights of {forms} against F_u.")


def _densities(gathered: Gathered, experiment: str, x: str, label: str) -> Figure:
    frame = gathered.experiment(experiment).sort_values("alpha", kind="stable")
    styles = line_styles(frame["population"])
    figure, found = facets(frame, "alpha", size=(3.6, 2.2), columns=2, title="α = {:g}", xlabel=label, ylabel="Density")
    for plot, _, part in found:
        exact = part["source"] == "closed form"
        for name, curve in part[exact].groupby("population", sort=False):
            plot.plot(curve[x], curve["density"], color=styles[str(name)].color, linestyle=styles[str(name)].linestyle)
        dots: dict[str, Any] = {"band": False, "capsize": 0, "markersize": 2.5, "linestyle": "none"}
        draw_sampled(plot, part[~exact], "population", styles, x=x, y="density", **dots)
        plot.set_ylim(bottom=0)
    add_style_legend(figure, styles)
    about = "Lines: closed form. Dots: drawn, with 95 % Monte-Carlo intervals."
    ends = f"for α from {frame['alpha'].min():g} to {frame['alpha'].max():g}"
    return finish(figure, [about, gathered.study.note], f"Densities of {' and '.join(styles)} against {label.lower()}, {ends}.")

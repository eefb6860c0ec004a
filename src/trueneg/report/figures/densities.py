"""Figures of the simulated process: densities and the density ratio with its jump."""

from trueneg.report.declared import ExperimentDrawings
from trueneg.report.drawing import Figure, add_legend, finish, line_styles, panels, unmarked
from trueneg.report.gathered import Gathered
from trueneg.report.plots import draw_sampled, facets
from trueneg.specs.kinds.experiments import ExperimentStudy

ORDER = 10
KIND = ExperimentStudy
drawings = ExperimentDrawings()


@drawings.add(
    "Densities of true and false negatives",
    "BCL's Fig. 3: the better the encoder ranks (α), the further apart the two densities are.",
)
def class_conditional_densities(gathered: Gathered) -> Figure:
    """Plot densities of true and false negatives for a normal base distribution, one panel per α
    (BCL, Fig. 3).
    """
    return _densities(
        gathered, "class_conditional_densities", "score", "Score (standard deviations of the base)"
    )


@drawings.add(
    "Densities of the observations",
    "BCL's Fig. 4: what an estimator observes, in closed form and as a Gaussian kernel density"
    " estimate. The authors' code draws α = 0.52 where the figure says 0.5.",
)
def observation_densities(gathered: Gathered) -> Figure:
    """Plot densities of e^(x/t) for a normal base distribution, one panel per α (BCL, Fig. 4)."""
    return _densities(gathered, "observation_densities", "observation", "Observation exp(x/t)")


@drawings.add(
    "Density ratio that the biased loss estimates",
    "BCL's Fig. 1: the jump of equation 10 lies above every attainable similarity; below it, the"
    " ratio only increases.",
)
def density_ratio(gathered: Gathered) -> Figure:
    """Plot p⁺/p⁻ at the optimum of the biased loss, with its jump (BCL, Fig. 1); unattainable
    similarities are grey.
    """
    frame = gathered.experiment("density_ratio")
    figure, [[plot]] = panels()
    styles = unmarked(line_styles(f"τ⁺ = {value:g}" for value in frame["class_probability"]))
    for (value, branch), part in frame.groupby(["class_probability", "branch"]):
        style = styles[f"τ⁺ = {value:g}"]
        plot.plot(
            part["similarity"],
            part["ratio"],
            color=style.color if branch == "attainable" else "0.6",
            linestyle=style.linestyle,
        )
    for value in frame["class_probability"].unique():
        plot.axvline(1 / value, color="0.8", linewidth=0.8)
    plot.set(xlim=(0, frame["similarity"].max()), ylim=(-40, 40))
    plot.set(xlabel="Similarity of the positive, in units of m", ylabel="Density ratio p⁺/p⁻")
    add_legend(figure, styles)
    return finish(
        figure,
        "Grey: similarities beyond the jump at m/τ⁺, which cannot occur because p⁺ is at most"
        " p_d/τ⁺.",
        gathered.study_note,
    )


def _densities(gathered: Gathered, experiment: str, x: str, label: str) -> Figure:
    """Draw one panel per α with the density of each population, as lines in closed form and as dots
    estimated from samples.
    """
    frame = gathered.experiment(experiment).sort_values("alpha", kind="stable")
    styles = line_styles(frame["population"])
    figure, parts = facets(
        frame, "alpha", size=(3.6, 2.2), columns=2, title="α = {:g}", xlabel=label, ylabel="Density"
    )
    for plot, _, part in parts:
        for name, curve in part.query("source == 'closed form'").groupby("population", sort=False):
            plot.plot(curve[x], curve["density"], **unmarked(styles)[str(name)]._asdict())
        draw_sampled(
            plot,
            part.query("source != 'closed form'"),
            styles,
            "population",
            x,
            "density",
            band=False,
            capsize=0,
            markersize=2.5,
            linestyle="none",
        )
        plot.set_ylim(bottom=0)
    add_legend(figure, styles)
    return finish(
        figure,
        "Lines: closed form. Dots: estimated from samples, with 95 % Monte-Carlo intervals.",
        gathered.study_note,
    )

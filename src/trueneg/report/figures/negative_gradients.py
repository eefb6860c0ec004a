"""Figure of what each loss does to one negative."""

from trueneg.report.declared import ExperimentDrawings
from trueneg.report.drawing import Figure, LineStyle, add_legend, finish, line_styles, unmarked
from trueneg.report.gathered import Gathered
from trueneg.report.plots import draw_sampled, facets
from trueneg.specs.experiments import DCL, FORM_NAMES, LOGIT_SCALE, OTHERS, POSITIVE

ORDER = 35
STYLES = unmarked(line_styles(["CL", DCL, FORM_NAMES["paper"], "OC", FORM_NAMES["consistent"], "HCL", "ReCo"]))
STYLES |= {"ReCo, m = −1": STYLES["ReCo"]._replace(linestyle=":"), "sigmoid": LineStyle("0.45", "", (0, (3, 1)))}

drawings = ExperimentDrawings()


@drawings.add("Gradient of one negative", "Above zero, the loss pushes the negative away. DCL is at its bound up to the jump.")
def negative_gradients(gathered: Gathered) -> Figure:
    """Plot the gradient of each loss with respect to one negative's cosine, with and without a denominator."""
    frame, process, (low, high, count) = gathered.experiment("negative_gradients"), gathered.study.process, OTHERS
    figure, parts = facets(frame, "family", size=(3.6, 2.8), title="{}", xlabel="Cosine c of one negative", ylabel="Scaled ∂L/∂c")
    for plot, _, part in parts:
        plot.axhline(0, color="0.6", linewidth=0.8)
        draw_sampled(plot, part, {name: STYLES[name] for name in part["loss"].unique()}, "loss", x="cosine")
    add_legend(figure, STYLES)
    about = (
        f"Positive at c = {POSITIVE}; {count} other negatives, evenly spaced from {low} to {high}. Left, over the logit scale of "
        f"{LOGIT_SCALE:g}: η = {process.class_probability:g}, α = {process.alpha:g}, β = 1. Right: ReCo and OC over 2λ; sigmoid "
        "with scale 10 and bias -10, over its scale."
    )
    largest = "; ".join(f"{name} at most {values.max():.3g}" for name, values in frame.groupby("loss", sort=False)["value"])
    return finish(figure, [about.replace("-", "−"), gathered.study_note], f"Gradient of one negative: {largest}.")

"""How wrong each estimator is, against whatever is varied."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from trueneg.config.theory_study import TheoryStudy
from trueneg.report.declared import Drawing, of_experiment
from trueneg.report.drawing import add_legend, finish, panel_grid, panels
from trueneg.report.experiment_lines import BAND, STYLES, estimator_legend, in_words, sweep
from trueneg.report.gathered import Gathered
from trueneg.specs.experiments import DRAWN, ESTIMATORS
from trueneg.specs.settings import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = 20

MSE = "Mean squared error of g"
LETTERS = dict(zip(ESTIMATORS, "BDPRC", strict=True))


def drawings(study: Study) -> list[Drawing]:
    """Of every theory study."""
    if not isinstance(study, TheoryStudy):
        return []
    return [
        of_experiment(
            mean_squared_errors,
            "Mean squared error of the estimators",
            "BCL's Fig. 5, with all three forms: BCL below DCL below biased holds in the paper's setting, not everywhere.",
            "errors_by_parameter",
        ),
        of_experiment(
            estimated_means,
            "Mean estimates",
            "BCL's Fig. 8: the printed form lies below the truth, more so for a better encoder.",
            "errors_by_parameter",
        ),
        of_experiment(
            bias_by_negatives,
            "Bias as the number of negatives grows",
            "Lemma 3.2 says that BCL's bias vanishes: the printed form's stays, the consistent form's goes.",
            "errors_by_negatives",
        ),
        of_experiment(
            errors_by_positives,
            "Mean squared error against the number of positives",
            "With one positive, as in training, DCL is farther off than no correction.",
        ),
        of_experiment(
            errors_by_assumed_alpha,
            "Mean squared error under a wrong α",
            "BCL needs to know how well the encoder ranks; DCL does not.",
        ),
        of_experiment(
            best_estimators, "Which estimator is best where", "Letters name the smallest mean squared error over α, τ⁺, N and K."
        ),
    ]


def mean_squared_errors(gathered: Gathered) -> "Figure":
    """Mean squared error of every estimator, one parameter varied a panel (BCL, Fig. 5)."""
    frame = gathered.experiment("errors_by_parameter")
    chosen = frame[(frame["quantity"] == "mean squared error") & (frame["reference"] == DRAWN)]
    parameters = list(dict.fromkeys(chosen["parameter"]))
    figure, axes = panel_grid(len(parameters), width=3.6, height=2.4, columns=2)
    for plot, parameter in zip(axes.flat, parameters, strict=False):
        part = chosen[chosen["parameter"] == parameter]
        # Against the number of anchors the number itself does not move: what one simulation may find does.
        sweep(plot, part, error="spread" if parameter == "anchors" else "standard error")
        plot.set_yscale("log")
    for plot in axes[:, 0]:
        plot.set_ylabel(MSE)
    estimator_legend(figure, chosen)
    about = f"Against the drawn true negatives' mean. {BAND} Anchors: 1.96 standard deviations of one simulation of that size."
    return finish(figure, [about, gathered.study.note], f"Mean squared errors. {in_words(chosen)}")


def estimated_means(gathered: Gathered) -> "Figure":
    """Mean estimate over anchors, beside the true negatives' mean, against slide and α (BCL, Fig. 8)."""
    frame = gathered.experiment("errors_by_parameter")
    chosen = frame[(frame["quantity"] == "mean") & frame["parameter"].isin(["slide", "alpha"])]
    figure, axes = panels(1, 2, width=7.2, height=3.6)
    for plot, parameter in zip(axes.flat, ("slide", "alpha"), strict=True):
        sweep(plot, chosen[chosen["parameter"] == parameter])
    axes[0, 0].set_ylabel("Mean of g over anchors")
    estimator_legend(figure, chosen)
    return finish(figure, [BAND, gathered.study.note], f"Mean estimates. {in_words(chosen)}")


def bias_by_negatives(gathered: Gathered) -> "Figure":
    """Bias and mean squared error as the number of negatives grows, with the limit of the bias (BCL, Lemma 3.2)."""
    frame = gathered.experiment("errors_by_negatives")
    drawn = frame[frame["reference"] == DRAWN]
    figure, axes = panels(1, 2, width=7.2, height=3.8)
    bias = drawn[drawn["quantity"] == "bias"]
    sweep(axes[0, 0], bias)
    for name, limit in frame[np.isinf(frame["at"])].groupby("estimator"):
        axes[0, 0].axhline(limit["value"].iloc[0], color=STYLES[name].color, linewidth=0.7, linestyle=(0, (1, 3)))
    axes[0, 0].set_ylabel("Bias of g")
    sweep(axes[0, 1], drawn[drawn["quantity"] == "mean squared error"])
    axes[0, 1].set_yscale("log")
    axes[0, 1].set_ylabel(MSE)
    estimator_legend(figure, drawn)
    about = f"{BAND} Thin dotted: the limit of the bias for any number of negatives, by quadrature."
    return finish(figure, [about, gathered.study.note], f"Bias by number of negatives. {in_words(bias)}")


def errors_by_positives(gathered: Gathered) -> "Figure":
    """Mean squared error against the number of positives, which DCL alone uses."""
    return _one_sweep(gathered.experiment("errors_by_positives"), gathered.study.note)


def errors_by_assumed_alpha(gathered: Gathered) -> "Figure":
    """Mean squared error where the BCL forms are given an α that need not be true; the true one is marked."""
    frame = gathered.experiment("errors_by_assumed_alpha")
    figure = _one_sweep(frame, f"Vertical line: the true α. {gathered.study.note}")
    figure.axes[0].axvline(frame["true alpha"].iloc[0], color="0.4", linewidth=0.9)
    return figure


def best_estimators(gathered: Gathered) -> "Figure":
    """The estimator with the smallest mean squared error: a panel a pair of N and K, a cell a pair of α and τ⁺.

    A letter in brackets is not clearly the best: another is within two standard errors of the paired difference.
    """
    from matplotlib.patches import Patch, Rectangle

    frame = gathered.experiment("best_estimators")
    alphas, etas = (sorted(frame[name].unique()) for name in ("alpha", "class_probability"))
    negatives, positives = (sorted(frame[name].unique()) for name in ("negatives", "positives"))
    figure, axes = panels(len(negatives), len(positives), width=2.5 * len(positives) + 0.6, height=2.0 * len(negatives) + 1.2)
    shades = dict(zip(ESTIMATORS, ("0.55", "#9ecae1", "#fdcf9e", "#d9f0d3", "#ffffff"), strict=True))
    winners = []
    for line, count in zip(axes, negatives, strict=True):
        for plot, available in zip(line, positives, strict=True):
            panel = frame[(frame["negatives"] == count) & (frame["positives"] == available)]
            for (alpha, eta), cell in panel.groupby(["alpha", "class_probability"]):
                name, clear = _winner(cell)
                winners.append(name)
                corner = (alphas.index(alpha) - 0.5, etas.index(eta) - 0.5)
                plot.add_patch(Rectangle(corner, 1, 1, facecolor=shades[name], edgecolor="0.8"))
                letter = LETTERS[name] if clear else f"({LETTERS[name]})"
                plot.text(corner[0] + 0.5, corner[1] + 0.5, letter, ha="center", va="center", fontsize=8, color="0.1")
            plot.set_xlim(-0.5, len(alphas) - 0.5)
            plot.set_ylim(-0.5, len(etas) - 0.5)
            plot.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
            plot.set_yticks(range(len(etas)), [f"{eta:g}" for eta in etas])
            plot.grid(visible=False)
            plot.set_title(f"N = {count}, K = {available}")
        line[0].set_ylabel("τ⁺")
    for plot in axes[-1]:
        plot.set_xlabel("α")
    handles = [Patch(facecolor=shades[name], edgecolor="0.6") for name in ESTIMATORS]
    add_legend(figure, handles, [f"{LETTERS[name]}: {name}" for name in ESTIMATORS])
    about = "Smallest mean squared error; in brackets: another is within two standard errors of the paired difference."
    counts = ", ".join(f"{name} {winners.count(name)}" for name in ESTIMATORS)
    return finish(figure, [about, gathered.study.note], f"Best estimators over α, τ⁺, N and K; cells won: {counts}.")


def _one_sweep(frame: pd.DataFrame, note: str) -> "Figure":
    chosen = frame[(frame["quantity"] == "mean squared error") & (frame["reference"] == DRAWN)]
    figure, axes = panels()
    sweep(axes[0, 0], chosen)
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_ylabel(MSE)
    estimator_legend(figure, chosen)
    return finish(figure, [f"Against the drawn true negatives' mean. {BAND}", note], f"Mean squared errors. {in_words(chosen)}")


def _winner(cell: pd.DataFrame) -> tuple[str, bool]:
    """The best estimator of a cell (the simplest of equal ones), and whether every other one is clearly behind."""
    cell = cell.set_index("estimator").loc[list(ESTIMATORS)]
    rounding = 1e-9 * cell["value"].min()
    best = cell.index[cell["behind"] <= rounding][0]
    others = cell.drop(index=best)
    return best, bool((others["behind"] > 2 * others["behind error"] + rounding).all())

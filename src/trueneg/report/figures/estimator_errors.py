"""Errors of each estimator against the varied parameter."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from trueneg.config.theory_study import TheoryStudy
from trueneg.report.declared import Drawing, of_experiment
from trueneg.report.drawing import Figure, add_legend, finish
from trueneg.report.experiment_lines import BAND, STYLES, estimator_legend, in_words, sweep
from trueneg.report.gathered import Gathered
from trueneg.report.plots import facets
from trueneg.specs.experiments import DRAWN, ESTIMATORS
from trueneg.specs.settings import Study

ORDER = 20

LABELS = {"mean squared error": "Mean squared error of g", "bias": "Bias of g", "mean": "Mean of g over anchors"}
AGAINST_DRAWN = "Against the drawn true negatives' mean."
# Letter and shade of each estimator in cells where it is the best.
BEST = dict(zip(ESTIMATORS, zip("BDPRC", ("0.55", "#9ecae1", "#fdcf9e", "#d9f0d3", "#ffffff"), strict=True), strict=True))


def drawings(study: Study) -> list[Drawing]:
    """Declare the figures of estimator errors for a theory study."""
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


def mean_squared_errors(gathered: Gathered) -> Figure:
    """Plot the mean squared error of every estimator, one panel per varied parameter (BCL, Fig. 5)."""
    chosen = _squared_errors(gathered.experiment("errors_by_parameter"))
    about = "Anchors: 1.96 standard deviations of one simulation of that size."
    return _sweeps(chosen, "Mean squared errors", [AGAINST_DRAWN, BAND, about, gathered.study.note])


def estimated_means(gathered: Gathered) -> Figure:
    """Plot the mean estimate over anchors and the true negatives' mean against slide and α (BCL, Fig. 8)."""
    frame = gathered.experiment("errors_by_parameter")
    parts = [frame[(frame["quantity"] == "mean") & (frame["parameter"] == parameter)] for parameter in ("slide", "alpha")]
    return _sweeps(pd.concat(parts), "Mean estimates", [BAND, gathered.study.note])


def bias_by_negatives(gathered: Gathered) -> Figure:
    """Plot bias and mean squared error against the number of negatives, with the limit of the bias (BCL, Lemma 3.2)."""
    frame = gathered.experiment("errors_by_negatives")
    limits = frame[np.isinf(frame["at"])]
    chosen = pd.concat([frame[(frame["reference"] == DRAWN) & (frame["quantity"] == "bias")], _squared_errors(frame)])
    about = "Thin dotted: the limit of the bias for any number of negatives, by quadrature."
    figure = _sweeps(chosen, "Bias by number of negatives", [BAND, about, gathered.study.note])
    for limit in limits.itertuples():
        figure.axes[0].axhline(limit.value, color=STYLES[limit.estimator].color, linewidth=0.7, linestyle=(0, (1, 3)))
    return figure


def errors_by_positives(gathered: Gathered) -> Figure:
    """Plot the mean squared error against the number of positives, which only DCL uses."""
    chosen = _squared_errors(gathered.experiment("errors_by_positives"))
    return _sweeps(chosen, "Mean squared errors", [AGAINST_DRAWN, BAND, gathered.study.note])


def errors_by_assumed_alpha(gathered: Gathered) -> Figure:
    """Plot the mean squared error against the α given to the BCL forms, which may be wrong; the true α is marked."""
    frame = gathered.experiment("errors_by_assumed_alpha")
    sentences = [AGAINST_DRAWN, BAND, "Vertical line: the true α.", gathered.study.note]
    figure = _sweeps(_squared_errors(frame), "Mean squared errors", sentences)
    figure.axes[0].axvline(frame["true alpha"].iloc[0], color="0.4", linewidth=0.9)
    return figure


def best_estimators(gathered: Gathered) -> Figure:
    """Draw the estimator with the smallest mean squared error: one panel per pair (N, K), one cell per pair (α, τ⁺).

    A letter in parentheses is not clearly the best: another estimator is within two standard errors of the paired difference.
    """
    import seaborn
    from matplotlib.patches import Patch

    frame = gathered.experiment("best_estimators").sort_values(["negatives", "positives", "alpha", "class_probability"])
    figure, found = facets(frame, "negatives", "positives", size=(2.5, 2.0), title="N = {}, K = {}", xlabel="α", ylabel="τ⁺")
    names = list(BEST)
    shades: list[Any] = [shade for _, shade in BEST.values()]
    won: Counter[str] = Counter()
    for plot, _, part in found:
        winners = part.groupby(["class_probability", "alpha"])[list(part.columns)].apply(_winner)
        won.update(winners["estimator"])
        numbers, letters = winners["estimator"].map(names.index).unstack(), winners["letter"].unstack()
        numbers = numbers.rename_axis(index=plot.get_ylabel(), columns=plot.get_xlabel())  # seaborn labels the axes with these
        look: dict[str, Any] = {"vmin": 0, "vmax": len(names) - 1, "cbar": False, "linewidths": 0.8, "linecolor": "0.8"}
        seaborn.heatmap(numbers, annot=letters, fmt="", annot_kws={"fontsize": 8, "color": "0.1"}, cmap=shades, ax=plot, **look)
        plot.invert_yaxis()
        plot.tick_params(axis="y", rotation=0)
    handles = [Patch(facecolor=shade, edgecolor="0.6") for shade in shades]
    add_legend(figure, handles, [f"{letter}: {name}" for name, (letter, _) in BEST.items()])
    about = "Smallest mean squared error; in brackets: another is within two standard errors of the paired difference."
    counts = ", ".join(f"{name} {won[name]}" for name in names)
    return finish(figure, [about, gathered.study.note], f"Best estimators over α, τ⁺, N and K; cells won: {counts}.")


def _squared_errors(frame: pd.DataFrame) -> pd.DataFrame:
    """Select the mean squared errors against the drawn true negatives' mean."""
    return frame[(frame["quantity"] == "mean squared error") & (frame["reference"] == DRAWN)]


def _sweeps(chosen: pd.DataFrame, what: str, sentences: Sequence[str]) -> Figure:
    """Draw one panel per quantity and varied parameter; the alternative text gives the values of the first quantity."""
    quantities = chosen["quantity"].unique()
    figure, found = facets(chosen, "quantity", "parameter", size=(3.6, 2.4), columns=2)
    for plot, (quantity, parameter), part in found:
        # The value does not depend on the number of anchors, but the spread of single simulations does.
        sweep(plot, part, error="spread" if parameter == "anchors" else "standard error")
        plot.set_yscale("log" if quantity == "mean squared error" else "linear")
        place: Any = plot.get_subplotspec()
        if place.is_first_col() or len(quantities) > 1:
            plot.set_ylabel(LABELS[quantity])
    estimator_legend(figure, chosen)
    return finish(figure, sentences, f"{what}. {in_words(chosen[chosen['quantity'] == quantities[0]])}")


def _winner(cell: pd.DataFrame) -> pd.Series:
    """Return a cell's best estimator (the simplest if tied) and its letter, in parentheses unless it is clearly the best."""
    cell = cell.set_index("estimator").loc[list(ESTIMATORS)]
    rounding = 1e-9 * cell["value"].min()
    best = cell.index[cell["behind"] <= rounding][0]
    others = cell.drop(index=best)
    clear = (others["behind"] > 2 * others["behind error"] + rounding).all()
    letter = BEST[best][0]
    return pd.Series({"estimator": best, "letter": letter if clear else f"({letter})"})

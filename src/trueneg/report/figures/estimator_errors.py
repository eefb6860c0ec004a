"""Errors of each estimator against the varied parameter."""

import numpy as np
import pandas as pd
from pandas import DataFrame

from trueneg.report.declared import ExperimentDrawings
from trueneg.report.drawing import Figure, add_legend, finish, line_styles, styles_of
from trueneg.report.gathered import Gathered
from trueneg.report.plots import BAND, Axis, draw_sampled, facets, set_ticks
from trueneg.specs.experiments import DRAWN, ESTIMATORS, TRUE
from trueneg.specs.kinds.experiments import ExperimentStudy

ORDER = 20
KIND = ExperimentStudy
STYLES = line_styles([*ESTIMATORS, TRUE])
AXES = {
    "alpha": Axis("α: how well the encoder ranks"),
    "class_probability": Axis("Class probability τ⁺", logarithmic=True),
    "negatives": Axis("Negatives per anchor, N", logarithmic=True),
    "anchors": Axis("Anchors", logarithmic=True),
    "slide": Axis("γ: maximum slide of the base interval"),
    "temperature": Axis("Temperature t", logarithmic=True),
    "positives": Axis("Positives per anchor, K", logarithmic=True),
    "assumed alpha": Axis("α given to the BCL forms"),
}
LABELS = {
    "mean squared error": "Mean squared error of g",
    "bias": "Bias of g",
    "mean": "Mean of g over anchors",
}
AGAINST_DRAWN = "Reference: the mean over the drawn true negatives."
FORMS = (
    "BCL, paper: equations 1 to 3 as printed. BCL, released: the authors' training code. BCL,"
    " consistent: their simulation code."
)
CODE_PROCESS = (
    "Process of the authors' simulation code: U(a, b) with ends up to γ/t² inside ±1/t², and DCL at"
    " least exp(−1/t²)."
)
SQUARED = (
    AGAINST_DRAWN,
    (
        "In the anchors panel, bands show ±1.96 standard deviations of a single simulation of that"
        " size."
    ),
)

drawings = ExperimentDrawings()


@drawings.add(
    "Mean squared error of the estimators",
    "BCL's Fig. 5, for the process as printed and with all three forms: in the paper's setting, but"
    " not everywhere, BCL's error is below DCL's, and DCL's is below that of the biased estimator.",
    "errors_by_parameter",
    headline=True,
)
def mean_squared_errors(gathered: Gathered) -> Figure:
    """Plot the mean squared error of every estimator, one panel per varied parameter (BCL, Fig.
    5).
    """
    return _sweeps(gathered, _squared_errors(gathered.experiment("errors_by_parameter")), *SQUARED)


@drawings.add(
    "Mean squared error in the authors' simulation",
    "BCL's Fig. 5, for the process of the authors' code: every form of BCL is below DCL, and DCL is"
    " below the biased estimator if the encoder ranks well.",
    "errors_in_simulation_code",
)
def mean_squared_errors_in_simulation_code(gathered: Gathered) -> Figure:
    """Plot the mean squared errors for the process of the authors' simulation code (BCL, Fig.
    5).
    """
    return _sweeps(
        gathered,
        _squared_errors(gathered.experiment("errors_in_simulation_code")),
        *SQUARED,
        CODE_PROCESS,
    )


@drawings.add(
    "Mean estimates",
    "BCL's Fig. 8, for the process as printed: the printed form is below the truth, and more so for"
    " a better encoder.",
    "errors_by_parameter",
)
def estimated_means(gathered: Gathered) -> Figure:
    """Plot the mean estimate over anchors and the true negatives' mean against slide and α (BCL,
    Fig. 8).
    """
    return _sweeps(gathered, _means(gathered.experiment("errors_by_parameter")))


@drawings.add(
    "Mean estimates in the authors' simulation",
    "BCL's Fig. 8, for the process of the authors' code: their own form is close to the truth, and"
    " the printed one is below it.",
    "errors_in_simulation_code",
)
def estimated_means_in_simulation_code(gathered: Gathered) -> Figure:
    """Plot the mean estimates for the process of the authors' simulation code (BCL, Fig. 8)."""
    return _sweeps(gathered, _means(gathered.experiment("errors_in_simulation_code")), CODE_PROCESS)


@drawings.add(
    "Bias as the number of negatives grows",
    "Lemma 3.2 states that BCL's bias vanishes: it does for the consistent form but not for the"
    " printed form.",
    "errors_by_negatives",
)
def bias_by_negatives(gathered: Gathered) -> Figure:
    """Plot bias and mean squared error against the number of negatives, with the limit of the bias
    (BCL, Lemma 3.2).
    """
    frame = gathered.experiment("errors_by_negatives")
    bias = frame[(frame["quantity"] == "bias") & (frame["reference"] == DRAWN)]
    figure = _sweeps(
        gathered,
        pd.concat([bias, _squared_errors(frame)]),
        "Thin dotted lines: limit of the bias for many negatives, by quadrature.",
    )
    for limit in frame[np.isinf(frame["at"])].itertuples():
        figure.axes[0].axhline(
            limit.value, color=STYLES[limit.estimator].color, linewidth=0.7, linestyle=(0, (1, 3))
        )
    return figure


@drawings.add(
    "Mean squared error against the number of positives",
    "With one positive, as in training, the error of DCL is larger than that of the biased"
    " estimator.",
)
def errors_by_positives(gathered: Gathered) -> Figure:
    """Plot the mean squared error against the number of positives, which only DCL uses."""
    return _sweeps(
        gathered, _squared_errors(gathered.experiment("errors_by_positives")), AGAINST_DRAWN
    )


@drawings.add(
    "Mean squared error under a wrong α",
    "BCL requires the value of α, which measures how well the encoder ranks; DCL does not.",
)
def errors_by_assumed_alpha(gathered: Gathered) -> Figure:
    """Plot the mean squared error against the α given to the BCL forms, which may differ from the
    true α (marked).
    """
    frame = gathered.experiment("errors_by_assumed_alpha")
    figure = _sweeps(gathered, _squared_errors(frame), AGAINST_DRAWN, "Vertical line: the true α.")
    figure.axes[0].axvline(frame["true alpha"].iloc[0], color="0.4", linewidth=0.9)
    return figure


def _squared_errors(frame: DataFrame) -> DataFrame:
    """Select the mean squared errors against the mean of the drawn true negatives."""
    return frame[(frame["quantity"] == "mean squared error") & (frame["reference"] == DRAWN)]


def _means(frame: DataFrame) -> DataFrame:
    """Select the mean estimates against slide and α, in this order."""
    means = frame.query("quantity == 'mean'")
    return pd.concat([means.query("parameter == 'slide'"), means.query("parameter == 'alpha'")])


def _sweeps(gathered: Gathered, chosen: DataFrame, *sentences: str) -> Figure:
    """Draw one panel per quantity and varied parameter."""
    # The value does not depend on the number of anchors, but the spread of single simulations does.
    errors = chosen["spread"].where(chosen["parameter"] == "anchors", chosen["standard error"])
    chosen = chosen.assign(**{"standard error": errors})
    figure, parts = facets(chosen, "quantity", "parameter", size=(3.6, 2.4), columns=2)
    for number, (plot, (quantity, parameter), part) in enumerate(parts):
        draw_sampled(plot, part, STYLES, by="estimator", x="at")
        plot.set_yscale("log" if quantity == "mean squared error" else "linear")
        set_ticks(plot, sorted(part["at"].unique()), AXES[parameter])
        if number % 2 == 0 or chosen["quantity"].nunique() > 1:
            plot.set_ylabel(LABELS[quantity])
    add_legend(figure, styles_of(chosen["estimator"], STYLES))
    return finish(figure, *sentences, FORMS, BAND, gathered.study_note)

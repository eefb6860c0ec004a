"""Measure the errors of estimators on the process: the BCL paper's Figs. 5 and 8, its Lemma 3.2,
and additional setting.

Every experiment yields parts of a tidy data frame: one value per row, with its Monte Carlo
standard error.
The columns of a sweep are ``parameter`` and ``at`` (name and value of the parameter), and those of
:func:`trueneg.theory.estimate.measure_errors`.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pandas import DataFrame

from trueneg.specs.experiments import DCL, ESTIMATORS, EXACT
from trueneg.theory.estimate import competitors, limiting_bias, measure_errors
from trueneg.theory.scores import Experiment, Setting


def errors_by_parameter(setting: Experiment, repetitions: int = 10) -> Iterator[DataFrame]:
    """Vary one parameter at a time (BCL, Figs. 5 and 8): mean, bias and MSE, with the true α given
    to the BCL forms.

    The process is the paper's (appendix B.1), and DCL has no lower bound, as in equation 30.
    """
    varied: dict[str, Sequence[Any]] = {
        "alpha": setting.alphas,
        "class_probability": setting.class_probabilities,
        "negatives": setting.negative_counts,
        "anchors": setting.anchor_counts,
        "slide": setting.slides,
        "temperature": setting.temperatures,
    }
    for parameter, values in varied.items():
        for value in values:
            yield _errors(parameter, value, setting.varied(**{parameter: value}), repetitions)


def errors_in_simulation_code(setting: Experiment, repetitions: int = 10) -> Iterator[DataFrame]:
    """Vary the same parameters for the process of the authors' simulation code, where DCL is at
    least e^(−1/t²).

    That code's own BCL, which it evaluates at β = ½, is the consistent form at β = 0.
    """
    released = {"base": "released", "temperatures": setting.released_temperatures}
    return errors_by_parameter(setting.varied(**released), repetitions)


def errors_by_negatives(setting: Experiment, repetitions: int = 10) -> Iterator[DataFrame]:
    """Check Lemma 3.2: measure the remaining bias of each form as the number of negatives grows.

    Each N uses about as many scores as `repetitions` repetitions at the setting's N. The value at ∞
    is the limit, by quadrature.
    """
    for count in setting.long_negative_counts:
        times = max(1, repetitions * setting.negatives // count)
        yield _errors("negatives", count, setting.varied(negatives=count), times)
    limits = {name: limiting_bias(setting, name) for name in ESTIMATORS}
    yield DataFrame(limits.items(), columns=["estimator", "value"]).assign(
        parameter="negatives",
        at=math.inf,
        reference=EXACT,
        quantity="bias",
        **{"standard error": 0.0},
    )


def errors_by_positives(setting: Experiment, repetitions: int = 4) -> Iterator[DataFrame]:
    """Measure errors for each number of positives K, which only DCL uses; smaller K reuse the first
    draws of the largest.
    """
    largest = setting.varied(positives=max(setting.positive_counts))
    for count in setting.positive_counts:
        yield _errors("positives", count, largest, repetitions, positives=count)


def errors_by_assumed_alpha(setting: Experiment, repetitions: int = 10) -> Iterator[DataFrame]:
    """Measure errors when the BCL forms assume an α other than the process's (``true alpha``), on
    the same draws.
    """
    for alpha in setting.assumed_alphas:
        errors = _errors("assumed alpha", alpha, setting, repetitions, alpha=alpha)
        yield errors.assign(**{"true alpha": setting.alpha})


def _errors(
    parameter: str, value: float, setting: Setting, repetitions: int, **changes: Any
) -> DataFrame:
    """Measure errors at one point of a sweep; `changes` replaces arguments of
    :func:`trueneg.theory.estimate.competitors`.
    """
    contestants = competitors(
        **{"alpha": setting.alpha, "class_probability": setting.class_probability, **changes}
    )
    if setting.base == "released":
        contestants[DCL] = contestants[DCL]._replace(floor=math.exp(-1 / setting.temperature**2))
    return measure_errors(setting, contestants, repetitions).assign(
        parameter=parameter, at=float(value)
    )

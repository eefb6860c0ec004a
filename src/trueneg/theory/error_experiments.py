"""Measure the errors of estimators on the process: the BCL paper's Figs. 5 and 8, its Lemma 3.2,
and additional sweeps.

Every experiment returns a tidy data frame: one value per row, with its Monte Carlo standard error.
The columns of a sweep are ``parameter`` and ``at`` (name and value of the parameter), and those of
:func:`trueneg.theory.estimate.measure_errors`.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from trueneg.specs.experiments import DCL, ESTIMATORS, EXACT
from trueneg.specs.kinds.theory import SweepSettings
from trueneg.theory.estimate import competitors, limiting_bias, measure_errors
from trueneg.theory.scores import Setting


def errors_by_parameter(
    setting: Setting, sweeps: SweepSettings, repetitions: int = 10
) -> pd.DataFrame:
    """Vary one parameter at a time (BCL, Figs. 5 and 8): mean, bias and MSE, with the true α given
    to the BCL forms.

    The process is the paper's (appendix B.1), and DCL has no lower bound, as in equation 30.
    """
    varied: dict[str, Sequence[Any]] = {
        "alpha": sweeps.alphas,
        "class_probability": sweeps.class_probabilities,
        "negatives": sweeps.negative_counts,
        "anchors": sweeps.anchor_counts,
        "slide": sweeps.slides,
        "temperature": sweeps.temperatures,
    }
    points = [(parameter, value) for parameter, values in varied.items() for value in values]
    frames = [
        _errors(parameter, value, setting.varied(**{parameter: value}), repetitions)
        for parameter, value in points
    ]
    return pd.concat(frames, ignore_index=True)


def errors_in_simulation_code(
    setting: Setting, sweeps: SweepSettings, repetitions: int = 10
) -> pd.DataFrame:
    """Vary the same parameters for the process of the authors' simulation code, where DCL is at
    least e^(−1/t²).

    That code's own BCL, which it evaluates at β = ½, is the consistent form at β = 0.
    """
    sweeps = sweeps.model_copy(update={"temperatures": sweeps.released_temperatures})
    return errors_by_parameter(setting.varied(base="released"), sweeps, repetitions)


def errors_by_negatives(
    setting: Setting, sweeps: SweepSettings, repetitions: int = 10
) -> pd.DataFrame:
    """Check Lemma 3.2: measure the remaining bias of each form as the number of negatives grows.

    Each N uses about as many scores as `repetitions` repetitions at the setting's N. The value at ∞
    is the limit, by quadrature.
    """
    frames = []
    for count in sweeps.long_negative_counts:
        times = max(1, repetitions * setting.negatives // count)
        frames.append(_errors("negatives", count, setting.varied(negatives=count), times))
    keys = {
        "parameter": "negatives",
        "at": math.inf,
        "reference": EXACT,
        "quantity": "bias",
        "standard error": 0.0,
    }
    frames += [
        pd.DataFrame([{**keys, "estimator": name, "value": limiting_bias(setting, name)}])
        for name in ESTIMATORS
    ]
    return pd.concat(frames, ignore_index=True)


def errors_by_positives(
    setting: Setting, sweeps: SweepSettings, repetitions: int = 4
) -> pd.DataFrame:
    """Measure errors for each number of positives K, which only DCL uses; smaller K reuse the first
    draws of the largest.
    """
    largest = setting.varied(positives=max(sweeps.positive_counts))
    frames = [
        _errors("positives", count, largest, repetitions, positives=count)
        for count in sweeps.positive_counts
    ]
    return pd.concat(frames, ignore_index=True)


def errors_by_assumed_alpha(
    setting: Setting, sweeps: SweepSettings, repetitions: int = 10
) -> pd.DataFrame:
    """Measure errors when the BCL forms assume an α other than the process's (``true alpha``), on
    the same draws.
    """
    frames = [
        _errors("assumed alpha", alpha, setting, repetitions, alpha=alpha)
        for alpha in sweeps.assumed_alphas
    ]
    return pd.concat(frames, ignore_index=True).assign(**{"true alpha": setting.alpha})


def _errors(
    parameter: str, value: float, setting: Setting, repetitions: int, **changes: Any
) -> pd.DataFrame:
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

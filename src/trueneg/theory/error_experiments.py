"""How wrong estimators are on the process: the BCL paper's Figs. 5 and 8, its Lemma 3.2, and what it left out.

Every function returns a tidy frame, one row per number with its Monte-Carlo standard error. The columns of a sweep are
``parameter`` and ``at`` (its name and value), and those of :func:`trueneg.theory.estimate.measure_errors`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from trueneg.config.theory_study import SweepSettings
from trueneg.losses.estimators import Debiased
from trueneg.specs.experiments import DCL, EXACT
from trueneg.theory.estimate import Competitor, competitors, limiting_bias, measure_errors, tally_errors
from trueneg.theory.scores import Setting


def errors_by_parameter(setting: Setting, sweeps: SweepSettings, repetitions: int = 10) -> pd.DataFrame:
    """Mean, bias and mean squared error, one parameter varied at a time (BCL, Figs. 5 and 8); the BCL forms are given the α."""
    varied = {
        "alpha": sweeps.alphas,
        "class_probability": sweeps.class_probabilities,
        "negatives": sweeps.negative_counts,
        "anchors": sweeps.anchor_counts,
        "slide": sweeps.slides,
        "temperature": sweeps.temperatures,
    }
    frames = []
    for parameter, values in varied.items():
        for value in values:
            one = replace(setting, **{parameter: value})
            frames.append(_measured(one, competitors(one.alpha, one.class_probability), repetitions, parameter, value))
    return pd.concat(frames, ignore_index=True)


def errors_by_negatives(setting: Setting, sweeps: SweepSettings, repetitions: int = 10) -> pd.DataFrame:
    """Lemma 3.2 as a check: what is left of each form's bias as the number of negatives grows.

    The number of draws is that of the repetitions at the setting's N. At infinity there is the limit by quadrature.
    """
    contestants = competitors(setting.alpha, setting.class_probability)
    frames = []
    for count in sweeps.long_negative_counts:
        times = max(1, repetitions * setting.negatives // count)
        frames.append(_measured(replace(setting, negatives=count), contestants, times, "negatives", count))
    keys = {"parameter": "negatives", "at": math.inf, "reference": EXACT, "quantity": "bias", "standard error": 0.0}
    frames += [pd.DataFrame([{**keys, "estimator": name, "value": limiting_bias(setting, name)}]) for name in contestants]
    return pd.concat(frames, ignore_index=True)


def errors_by_positives(setting: Setting, sweeps: SweepSettings, repetitions: int = 4) -> pd.DataFrame:
    """Errors against the number of positives K, which only DCL uses; all share their draws, the first K of the most."""
    counts = sweeps.positive_counts
    contestants = _with_positives(setting.alpha, setting.class_probability, counts)
    found = measure_errors(replace(setting, positives=max(counts)), contestants, repetitions)
    others = found[~found["estimator"].isin(_names_of_dcl(counts))]
    frames = []
    for count, name in zip(counts, _names_of_dcl(counts), strict=True):
        own = found[found["estimator"] == name].assign(estimator=DCL)
        frames.append(pd.concat([others, own]).assign(parameter="positives", at=float(count)))
    return pd.concat(frames, ignore_index=True)


def errors_by_assumed_alpha(setting: Setting, sweeps: SweepSettings, repetitions: int = 10) -> pd.DataFrame:
    """Errors where the BCL forms are given an α that is not the process's, ``true alpha``; the draws are the same."""
    frames = [
        _measured(setting, competitors(alpha, setting.class_probability), repetitions, "assumed alpha", alpha)
        for alpha in sweeps.assumed_alphas
    ]
    return pd.concat(frames, ignore_index=True).assign(**{"true alpha": setting.alpha})


def best_estimators(setting: Setting, sweeps: SweepSettings) -> pd.DataFrame:
    """Which estimator has the smallest mean squared error, over α (given to the BCL forms), τ⁺, N and K (of DCL alone).

    Returns:
        ``alpha``, ``class_probability``, ``negatives``, ``positives``, ``estimator``, ``value`` (the mean squared error
        against the drawn true negatives), ``standard error``, ``behind`` (the best one's subtracted) and ``behind error``,
        the standard error of that paired difference: both 0 for the best.
    """
    frames, counts = [], sweeps.map_positive_counts
    places = product(sweeps.map_alphas, sweeps.map_class_probabilities, sweeps.map_negative_counts)
    for alpha, eta, negatives in places:
        one = replace(setting, alpha=alpha, class_probability=eta, negatives=negatives, positives=max(counts))
        contestants = _with_positives(alpha, eta, counts)
        means, covariance = tally_errors(one, contestants, 1)[0].moments("squared")
        names = list(contestants)
        others = [place for place, name in enumerate(names) if name not in _names_of_dcl(counts)]
        for count, of_dcl in zip(counts, _names_of_dcl(counts), strict=True):
            chosen = [*others, names.index(of_dcl)]
            compared = _compared(means[chosen], covariance[np.ix_(chosen, chosen)])
            compared.insert(0, "estimator", [*(names[place] for place in others), DCL])
            frames.append(compared.assign(alpha=alpha, class_probability=eta, negatives=negatives, positives=count))
    return pd.concat(frames, ignore_index=True)


def _names_of_dcl(counts: Sequence[int]) -> list[str]:
    return [f"{DCL} {count}" for count in counts]


def _with_positives(alpha: float, eta: float, counts: Sequence[int]) -> dict[str, Competitor]:
    """The competitors, with DCL once for each number of positives in place of with all."""
    contestants = competitors(alpha, eta)
    del contestants[DCL]
    return contestants | dict(zip(_names_of_dcl(counts), (Competitor(Debiased(eta), count) for count in counts), strict=True))


def _compared(means: np.ndarray, covariance: np.ndarray) -> pd.DataFrame:
    best, variance = int(means.argmin()), np.diag(covariance)
    behind = np.sqrt(np.clip(variance + variance[best] - 2 * covariance[best], 0, None))
    return pd.DataFrame(
        {"value": means, "standard error": np.sqrt(variance), "behind": means - means[best], "behind error": behind}
    )


def _measured(
    setting: Setting, contestants: Mapping[str, Competitor], repetitions: int, parameter: str, value: float
) -> pd.DataFrame:
    return measure_errors(setting, contestants, repetitions).assign(parameter=parameter, at=float(value))

"""How wrong estimators are on the process: the BCL paper's Figs. 5 and 8, its Lemma 3.2, and what it left out.

Every function returns a tidy frame, one row a number with its Monte-Carlo standard error. The columns of a sweep are
``parameter`` and ``at`` (its name and value), and those of :func:`trueneg.theory.estimate.measure_errors`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from trueneg.losses.estimators import Debiased
from trueneg.specs.experiments import DCL, EXACT
from trueneg.theory.estimate import Competitor, competitors, limiting_bias, measure_errors, tally_errors
from trueneg.theory.scores import Setting


def errors_by_parameter(
    setting: Setting,
    *,
    repetitions: int = 10,
    alphas: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 0.9, 0.99),
    class_probabilities: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5),
    negative_counts: Sequence[int] = (16, 32, 64, 128, 256, 512),
    anchor_counts: Sequence[int] = (50, 100, 200, 500, 1000, 2000),
    slides: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    temperatures: Sequence[float] = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0),
) -> pd.DataFrame:
    """Mean, bias and mean squared error, one parameter varied at a time (BCL, Figs. 5 and 8).

    Args:
        setting: everything else; the BCL forms are told its α.
        repetitions: how many times its number of anchors is drawn.
        alphas: each α.
        class_probabilities: each τ⁺.
        negative_counts: each N.
        anchor_counts: each number of anchors of one repetition: look at the spread.
        slides: each slide.
        temperatures: each t.
    """
    sweeps = {
        "alpha": alphas,
        "class_probability": class_probabilities,
        "negatives": negative_counts,
        "anchors": anchor_counts,
        "slide": slides,
        "temperature": temperatures,
    }
    frames = []
    for parameter, values in sweeps.items():
        for value in values:
            one = replace(setting, **{parameter: value})
            frames.append(_measured(one, competitors(one.alpha, one.class_probability), repetitions, parameter, value))
    return pd.concat(frames, ignore_index=True)


def errors_by_negatives(
    setting: Setting, *, repetitions: int = 10, long_negative_counts: Sequence[int] = (16, 64, 256, 1024, 4096)
) -> pd.DataFrame:
    """Lemma 3.2 as a check: what is left of each form's bias as the number of negatives grows.

    Args:
        setting: everything else.
        repetitions: at the setting's N; elsewhere as many as make the same number of draws, at least one.
        long_negative_counts: each N.

    Returns:
        A sweep's columns; at infinity ("quantity" "bias") there is the limit by quadrature, with standard error 0.
    """
    contestants = competitors(setting.alpha, setting.class_probability)
    frames = []
    for count in long_negative_counts:
        one, times = replace(setting, negatives=count), max(1, repetitions * setting.negatives // count)
        frames.append(_measured(one, contestants, times, "negatives", count))
    keys = {"parameter": "negatives", "at": math.inf, "reference": EXACT, "quantity": "bias", "standard error": 0.0}
    frames += [pd.DataFrame([{**keys, "estimator": name, "value": limiting_bias(setting, name)}]) for name in contestants]
    return pd.concat(frames, ignore_index=True)


def errors_by_positives(
    setting: Setting, *, repetitions: int = 4, positive_counts: Sequence[int] = (1, 2, 5, 10, 32, 64, 256)
) -> pd.DataFrame:
    """Errors against the number of positives K, which only DCL uses.

    Args:
        setting: everything else.
        repetitions: how many times its number of anchors is drawn.
        positive_counts: each K; all share their draws, the first K of the most.
    """
    contestants = competitors(setting.alpha, setting.class_probability)
    of_dcl = {f"{DCL} {count}": replace(contestants[DCL], positives=count) for count in positive_counts}
    one = replace(setting, positives=max(positive_counts))
    found = measure_errors(one, {**contestants, **of_dcl}, repetitions)
    frames = []
    for count in positive_counts:
        others = found[~found["estimator"].isin([DCL, *of_dcl])]
        own = found[found["estimator"] == f"{DCL} {count}"].assign(estimator=DCL)
        frames.append(pd.concat([others, own]).assign(parameter="positives", at=float(count)))
    return pd.concat(frames, ignore_index=True)


def errors_by_assumed_alpha(
    setting: Setting, *, repetitions: int = 10, assumed_alphas: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)
) -> pd.DataFrame:
    """Errors where the BCL forms are told an α that is not the process's.

    Args:
        setting: the process, with the true α.
        repetitions: how many times its number of anchors is drawn.
        assumed_alphas: each α that the forms are told; the draws are the same.

    Returns:
        A sweep's columns, and ``true alpha``.
    """
    frames = [
        _measured(setting, competitors(alpha, setting.class_probability), repetitions, "assumed alpha", alpha)
        for alpha in assumed_alphas
    ]
    return pd.concat(frames, ignore_index=True).assign(**{"true alpha": setting.alpha})


def best_estimators(
    setting: Setting,
    *,
    map_alphas: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 0.9, 0.99),
    map_class_probabilities: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.4),
    map_negative_counts: Sequence[int] = (30, 126, 510),
    map_positive_counts: Sequence[int] = (1, 10, 100),
) -> pd.DataFrame:
    """Which estimator has the smallest mean squared error, over α, τ⁺, N and K.

    Args:
        setting: everything else; its anchors are drawn once at each place.
        map_alphas: each α; the BCL forms are told it.
        map_class_probabilities: each τ⁺.
        map_negative_counts: each N.
        map_positive_counts: each K; only DCL uses them.

    Returns:
        ``alpha``, ``class_probability``, ``negatives``, ``positives``, ``estimator``, ``value`` (the mean squared error
        against the drawn true negatives), ``standard error``, ``behind`` (the best one's subtracted) and ``behind error``,
        the standard error of that paired difference: both 0 for the best.
    """
    frames = []
    for alpha, eta, negatives in product(map_alphas, map_class_probabilities, map_negative_counts):
        one = replace(setting, alpha=alpha, class_probability=eta, negatives=negatives, positives=max(map_positive_counts))
        contestants = competitors(alpha, eta)
        others = [name for name in contestants if name != DCL]
        contestants |= {f"{DCL} {count}": Competitor(Debiased(eta), count) for count in map_positive_counts}
        del contestants[DCL]
        means, covariance = tally_errors(one, contestants, 1)[0].moments("squared")
        place = {name: index for index, name in enumerate(contestants)}
        keys = {"alpha": alpha, "class_probability": eta, "negatives": negatives}
        for count in map_positive_counts:
            chosen = [*(place[name] for name in others), place[f"{DCL} {count}"]]
            compared = _compared([*others, DCL], means[chosen], covariance[np.ix_(chosen, chosen)])
            frames.append(compared.assign(**keys, positives=count))
    return pd.concat(frames, ignore_index=True)


def _compared(names: Sequence[str], means: np.ndarray, covariance: np.ndarray) -> pd.DataFrame:
    best = int(means.argmin())
    variance = np.diag(covariance)
    behind = np.sqrt(np.clip(variance + variance[best] - 2 * covariance[best], 0, None))
    return pd.DataFrame(
        {
            "estimator": names,
            "value": means,
            "standard error": np.sqrt(variance),
            "behind": means - means[best],
            "behind error": behind,
        }
    )


def _measured(
    setting: Setting, contestants: Mapping[str, Competitor], repetitions: int, parameter: str, value: float
) -> pd.DataFrame:
    return measure_errors(setting, contestants, repetitions).assign(parameter=parameter, at=float(value))

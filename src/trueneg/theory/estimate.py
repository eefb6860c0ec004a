"""Evaluate estimators on simulated scores: their bias and mean squared error.

The estimators are those of :mod:`trueneg.losses`, evaluated by their signed mean in linear space,
because a debiased estimate without a bound can be negative and then has no logarithm.
"""

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray
from pandas import DataFrame
from torch import Tensor

from trueneg.losses import Anchors, Debiased, Uncorrected
from trueneg.losses.base import Estimator
from trueneg.losses.estimators.bayesian import (
    Bayesian,
    recovered_distribution,
    released_weight,
    true_negative_probability,
)
from trueneg.specs.experiments import BIASED, DCL, FORM_NAMES, REFERENCES, TRUE
from trueneg.theory.scores import Scores, Setting, simulate_blocks

# the β at which weights do not depend on nearness
NO_HARDNESS = {"paper": 0.0, "released": 0.5, "consistent": 0.0}


class Competitor(NamedTuple):
    """An estimator in a comparison; it uses the first `positives` positives, or all if None;
    `floor` is a lower bound of g.
    """

    estimator: Estimator
    positives: int | None = None
    floor: float = -math.inf


def estimate_true_negative_mean(
    scores: Scores, estimator: Estimator, positives: int | None = None, floor: float = -math.inf
) -> Tensor:
    """Estimate the mean of e^u over each anchor's true negatives; without a floor, the result can
    be negative.

    This is g in equations 28 to 30 of the BCL paper, which have no lower bound.

    Args:
        scores: from :func:`trueneg.theory.simulate_scores`.
        estimator: estimator from :mod:`trueneg.losses`. If it needs a class probability but none is
            set, it receives each anchor's true one; if it needs labels, it receives them.
        positives: number of positives used per anchor; None: all.
        floor: smallest estimate, such as e^(−1/t²) for DCL in the simulation code of BCL's authors.

    Returns:
        Shape (A,), float64.

    Raises:
        ValueError: if `positives` is less than 1 or exceeds the number of positives in the scores.

    Example:
        >>> from trueneg.losses import Uncorrected
        >>> from trueneg.theory import Setting, simulate_scores
        >>> scores = simulate_scores(Setting(anchors=3))
        >>> bool(
        ...     torch.allclose(
        ...         estimate_true_negative_mean(scores, Uncorrected()),
        ...         scores.negatives.exp().mean(1),
        ...     )
        ... )
        True
    """
    available = scores.positive.shape[1]
    if positives is not None and not 1 <= positives <= available:
        raise ValueError(
            f"positives is {positives}; expected 1 to {available}, the number simulated per anchor."
        )
    own = getattr(estimator, "class_probability", None)
    anchors = Anchors(
        scores.positive[:, :positives],
        scores.negatives,
        class_probability=scores.class_probability if own is None else None,
        same_class=~scores.is_true,
    )
    return estimator.mean(anchors).clamp(min=floor)


def competitors(
    alpha: float, class_probability: float | None, positives: int | None = None
) -> dict[str, Competitor]:
    """Return the estimators that the BCL paper compares, and the two other forms of BCL, without
    hardness weighting.

    Args:
        alpha: α given to the BCL forms.
        class_probability: τ⁺ given to all estimators; None: each anchor's true one.
        positives: K, the number of positives that DCL uses; None: all. The other estimators use
            none.
    """
    forms = {
        name: Competitor(Bayesian(alpha, NO_HARDNESS[form], class_probability, form))
        for form, name in FORM_NAMES.items()
    }
    return {
        BIASED: Competitor(Uncorrected()),
        DCL: Competitor(Debiased(class_probability), positives),
        **forms,
    }


def measure_errors(
    setting: Setting, contestants: Mapping[str, Competitor], repetitions: int = 1
) -> DataFrame:
    """Measure the mean, bias and mean squared error of estimators on simulated scores, with
    standard errors.

    Each anchor's estimate is compared with two references: the mean over the drawn true negatives,
    as in the BCL paper, so that shared sampling noise cancels; and the exact mean. Anchors without
    a true negative are left out of the first comparison.

    Args:
        setting: parameters of the process; ``anchors`` is the number per repetition.
        contestants: estimators by name.
        repetitions: number of repetitions.

    Returns:
        One row per value: ``estimator`` (the true mean has its own rows), ``reference``,
            ``quantity`` ("mean", "bias", "mean squared error"), ``value``, ``standard error``, and
            ``spread``, the standard deviation of the value over repetitions (NaN for a single
            repetition). For means, ``reference`` is empty.
    """
    estimates, drawn, exact = simulate_estimates(setting, contestants, repetitions)
    of_drawn = estimates - drawn
    of_exact = estimates - exact
    values = np.vstack([of_drawn, of_drawn**2, of_exact, of_exact**2, estimates, exact])
    quantities = [*itertools.product(REFERENCES, ("bias", "mean squared error")), ("", "mean")]
    rows = [(name, *quantity) for quantity in quantities for name in contestants]
    keys = DataFrame([*rows, (TRUE, "", "mean")], columns=["estimator", "reference", "quantity"])
    return measure(values, repetitions).join(keys)


def simulate_estimates(
    setting: Setting, contestants: Mapping[str, Competitor], repetitions: int = 1
) -> tuple[ndarray, ndarray, ndarray]:
    """Simulate A = ``repetitions * setting.anchors`` anchors, in blocks that limit the memory of
    the scores.

    Returns:
        Estimates (E, A) of E estimators, and for each anchor (A,) the mean over its drawn true
            negatives (NaN if there are none) and the exact mean.
    """
    blocks = []
    for scores in simulate_blocks(setting.varied(anchors=setting.anchors * repetitions)):
        estimates = [
            estimate_true_negative_mean(scores, *contestant) for contestant in contestants.values()
        ]
        blocks.append(torch.stack([*estimates, scores.true_mean, scores.exact_mean]).numpy())
    values = np.hstack(blocks)
    return values[:-2], values[-2], values[-1]


def measure(values: ndarray, repetitions: int = 1) -> DataFrame:
    """Summarise E quantities over all anchors, one row each: mean (``value``), ``standard error``,
    ``spread`` over repetitions.

    Args:
        values: (E, A), with the anchors of each repetition in a row; NaN values are skipped.
        repetitions: number of repetitions.
    """
    error = np.nanstd(values, axis=1) / np.sqrt((~np.isnan(values)).sum(axis=1))
    of_repetition = np.nanmean(values.reshape(len(values), repetitions, -1), axis=2)
    spread = of_repetition.std(axis=1, ddof=1) if repetitions > 1 else np.nan
    return DataFrame(
        {"value": np.nanmean(values, axis=1), "standard error": error, "spread": spread}
    )


def limiting_bias(setting: Setting, contestant: str) -> float:
    """Compute by quadrature the bias that remains in the limit of infinitely many negatives and
    positives per anchor.

    Args:
        setting: the process, with one class probability for all anchors.
        contestant: a key of :func:`competitors`; the BCL forms are given the true α.

    Raises:
        ValueError: for the released base, whose intervals differ in width.
    """
    if setting.base == "released":
        raise ValueError(
            "base is released; expected uniform or normal, whose anchors differ only by a shift"
        )
    if contestant == DCL:
        return 0.0
    eta = setting.class_probability
    rate = 1 / setting.temperature
    population = setting.population(eta)
    if contestant == BIASED:
        limit = population.mean_exponential(setting.temperature)
    else:
        form = next(form for form, name in FORM_NAMES.items() if name == contestant)

        def weight(score: ndarray) -> ndarray:
            return importance(population.distribution(score), setting.alpha, eta, form)

        limit = population.expectation(lambda score: weight(score) * np.exp(rate * score), rate)
        limit /= 1.0 if form == "released" else population.expectation(weight)
    # A shift multiplies every e^u by a factor, so its mean over shifts is a constant factor.
    reach = setting.largest_shift * rate
    factor = np.sinh(reach) / reach if reach > 0 else 1.0
    return factor * (limit - setting.population(0.0).mean_exponential(setting.temperature))


def importance(share: ndarray, alpha: float, eta: float, form: str) -> ndarray:
    """Compute the unnormalised ω of a BCL form without hardness weighting; `share` = F_u, the
    fraction of negatives no closer.
    """
    distribution = torch.from_numpy(share)
    below = distribution if form == "paper" else recovered_distribution(distribution, alpha, eta)
    if form == "released":
        return released_weight(below, alpha, NO_HARDNESS[form], eta).numpy()
    return true_negative_probability(below, alpha, eta).numpy()

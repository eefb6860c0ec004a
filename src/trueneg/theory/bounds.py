"""Proposition 1 of Sample-Specific Debiasing (2023): how far a debiased loss is from its asymptotic one.

The bound, what is trivially true without it, where it first says more than that, and the error itself, measured
on the stochastic process.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy import ndarray
from numpy.typing import ArrayLike
from torch.nn import functional

from trueneg.losses.base import Estimator
from trueneg.losses.estimators import Debiased, Uncorrected
from trueneg.theory.estimate import Tally
from trueneg.theory.scores import Scores, Setting, simulate_blocks

LARGEST = 2**60  # beyond this no number of samples is looked for


class Objective(NamedTuple):
    """A debiased loss as Proposition 1 sees it: its estimator and the η (C,) that it takes for each class (0: no correction)."""

    estimator: Estimator
    class_probability: ndarray


def objectives(rho: ArrayLike) -> dict[str, Objective]:
    """CL, DCL with the mean, with the largest and with the true probability of the classes, `rho` (C,)."""
    rho = np.asarray(rho, dtype=float)
    mean, largest = float(rho.mean()), float(rho.max())
    return {
        "CL": Objective(Uncorrected(), np.zeros_like(rho)),
        "DCL, mean η": Objective(Debiased(mean), np.full_like(rho, mean)),
        "DCL, largest η": Objective(Debiased(largest), np.full_like(rho, largest)),
        "DCL, true η": Objective(Debiased(), rho),
    }


def proposition_1(negatives: float, positives: float, rho: ArrayLike, eta: ArrayLike, temperature: float = 1.0) -> float:
    r"""The bound, a sum of three terms.

    .. math:: 3e^{2\gamma^2}\Bigl(\sqrt{\tfrac{\pi}{2N}}\,\mathbb{E}\tfrac{1}{1-\rho}
              + \sqrt{\tfrac{\pi}{2M}}\,\mathbb{E}\tfrac{\rho}{1-\rho}
              + \mathbb{E}\bigl|\tfrac{1}{1-\eta} - \tfrac{1}{1-\rho}\bigr|\Bigr)

    Equations 9 and 10, where γ = 1; the proof's steps give e^(2γ²) for scores within ±γ² = ±1/t.

    Args:
        negatives: N.
        positives: M.
        rho: (C,) the probability of each class; the expectation is over a sample's class.
        eta: (C,) η of each class.
        temperature: t = 1/γ².

    Example:
        >>> round(proposition_1(254, 1, rho=[0.1] * 10, eta=[0.1] * 10), 2)
        5.02
    """
    rho, eta = np.asarray(rho, dtype=float), np.asarray(eta, dtype=float)
    scale = 3 * math.exp(2 / temperature)
    of_negatives = scale * math.sqrt(math.pi / 2 / negatives) * float(rho @ (1 / (1 - rho)))
    of_positives = scale * math.sqrt(math.pi / 2 / positives) * float(rho @ (rho / (1 - rho)))
    return of_negatives + of_positives + scale * float(rho @ abs(1 / (1 - eta) - 1 / (1 - rho)))


def trivial_bound(negatives: float, rho: ArrayLike, eta: ArrayLike, temperature: float = 1.0) -> float:
    r"""What holds whatever is drawn, since all scores lie within ±γ² = ±1/t.

    .. math:: \mathbb{E} \log\frac{1 + N\,(e^{2\gamma^2} - \eta)/(1-\eta)}{1 + N}

    The estimate and the mean that it stands for both lie between the floor e^(−γ²) and the largest estimate,
    (e^(γ²) − η·e^(−γ²))/(1 − η); the two logarithms differ most where the positive is farthest.

    Args:
        negatives: N.
        rho: (C,) the probability of each class.
        eta: (C,) η of each class.
        temperature: t.

    Example:
        >>> round(trivial_bound(254, rho=[0.1] * 10, eta=[0.1] * 10), 2)
        2.09
    """
    rho, eta = np.asarray(rho, dtype=float), np.asarray(eta, dtype=float)
    largest = (math.exp(2 / temperature) - eta) / (1 - eta)
    return float(rho @ np.log((1 + negatives * largest) / (1 + negatives)))


def informative_size(rho: ArrayLike, eta: ArrayLike, temperature: float = 1.0, positives: int | None = None) -> float:
    """The smallest number of negatives at which Proposition 1 says more than the trivial bound; infinity if none.

    Args:
        rho: (C,) the probability of each class.
        eta: (C,) η of each class.
        temperature: t.
        positives: M; None: as many as negatives.

    Example:
        >>> informative_size(rho=[0.1] * 10, eta=[0.1] * 10, positives=1)      # one positive: never
        inf
    """

    def says_something(negatives: int) -> bool:
        bound = proposition_1(negatives, positives or negatives, rho, eta, temperature)
        return bound < trivial_bound(negatives, rho, eta, temperature)

    if not says_something(LARGEST):
        return math.inf
    low, high = 0, LARGEST  # the bound falls with N, the trivial one rises
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if says_something(middle) else (middle, high)
    return float(high)


def approximation_error(
    setting: Setting, contestants: Mapping[str, Objective], positive_counts: Sequence[int], repetitions: int = 1
) -> pd.DataFrame:
    """|L − L̄| as it is on the process, beside the mean of the absolute differences that the proof bounds.

    L is the loss of an estimator with the floor e^(−1/t); L̄ has the exact mean over the anchor's true negatives
    in its place, times N (equations 7 and 11). The positive of the numerator is drawn apart from the M.

    Args:
        setting: the process, with the probabilities of all classes; its positives are not looked at.
        contestants: losses by name.
        positive_counts: each M.
        repetitions: how many times as many anchors are drawn.

    Returns:
        One row a number: ``objective``, ``positives``, ``quantity`` ("|L − L̄|", "mean |Δ|"), ``value``, ``standard
        error``.

    Raises:
        ValueError: if scores can leave ±1, so that logits leave the ±1/t that the floor stands for.
    """
    if setting.base != "uniform" or setting.half_width + setting.largest_shift > 1:
        raise ValueError(
            f"base is {setting.base!r} with a slide of {setting.slide}: scores can leave ±1, where e^(−1/t) is no lower "
            "bound; take the uniform base and a slide of at most 0.5."
        )
    keys = pd.DataFrame(list(itertools.product(contestants, positive_counts)), columns=["objective", "positives"])
    anchors = setting.anchors * repetitions
    tally = Tally(1, anchors)
    for scores in simulate_blocks(replace(setting, anchors=anchors, positives=max(positive_counts) + 1)):
        differences = np.stack(
            [_differences(scores, contestants[name].estimator, count, setting) for name, count in keys.to_numpy()]
        )
        tally.add(0, np.ones(differences.shape[1], dtype=bool), signed=differences, absolute=abs(differences))
    signed, absolute = tally.of("signed"), tally.of("absolute")
    frames = [
        keys.join(signed.assign(value=signed["value"].abs(), quantity="|L − L̄|")),
        keys.join(absolute.assign(quantity="mean |Δ|")),
    ]
    return pd.concat(frames, ignore_index=True).drop(columns="spread")


def _differences(scores: Scores, estimator: Estimator, positives: int, setting: Setting) -> ndarray:
    """(A,) loss minus asymptotic loss of each anchor; the last positive is the numerator's."""
    positive, further = scores.positive[:, -1], scores.positive[:, :positives]
    eta = scores.class_probability if getattr(estimator, "class_probability", 0) is None else None
    log_mass = estimator(further, scores.negatives, eta, -1 / setting.temperature)
    log_asymptotic = scores.exact_mean.log() + math.log(setting.negatives)
    return (functional.softplus(log_mass - positive) - functional.softplus(log_asymptotic - positive)).numpy()

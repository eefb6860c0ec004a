"""Proposition 1 of Sample-Specific Debiasing (2023): how far a debiased loss is from its asymptotic
loss.

Computes the bound, the trivial bound, and the actual error measured on the stochastic process.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from numpy.typing import ArrayLike
from pandas import DataFrame
from torch.nn import functional

from trueneg.losses import Debiased, Uncorrected
from trueneg.losses.base import Estimator
from trueneg.theory.estimate import measure
from trueneg.theory.scores import Scores, Setting, simulate_blocks


class DebiasedLoss(NamedTuple):
    """A loss in the sense of Proposition 1: its estimator and its η (C,) for each class (0: no
    correction).
    """

    estimator: Estimator
    class_probability: ndarray


def debiased_losses(rho: ArrayLike) -> dict[str, DebiasedLoss]:
    """Return CL, and DCL with the mean, the largest or each class's own probability in `rho` (C,)
    as η.
    """
    rho = np.asarray(rho, dtype=float)
    mean = float(rho.mean())
    largest = float(rho.max())
    return {
        "CL": DebiasedLoss(Uncorrected(), np.zeros_like(rho)),
        "DCL, mean η": DebiasedLoss(Debiased(mean), np.full_like(rho, mean)),
        "DCL, largest η": DebiasedLoss(Debiased(largest), np.full_like(rho, largest)),
        "DCL, true η": DebiasedLoss(Debiased(), rho),
    }


def proposition_1(
    negatives: float, positives: float, rho: ArrayLike, eta: ArrayLike, temperature: float = 1.0
) -> float:
    r"""Compute the bound of Proposition 1, a sum of three terms.

    .. math:: 3e^{2\gamma^2}\Bigl(\sqrt{\tfrac{\pi}{2N}}\,\mathbb{E}\tfrac{1}{1-\rho}
              + \sqrt{\tfrac{\pi}{2M}}\,\mathbb{E}\tfrac{\rho}{1-\rho}
              + \mathbb{E}\bigl|\tfrac{1}{1-\eta} - \tfrac{1}{1-\rho}\bigr|\Bigr)

    Equations 9 and 10, which assume γ = 1; following the proof gives e^(2γ²) for scores within ±γ²
    = ±1/t.

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
    rho = np.asarray(rho, dtype=float)
    eta = np.asarray(eta, dtype=float)
    scale = 3 * math.exp(2 / temperature)
    of_negatives = scale * math.sqrt(math.pi / 2 / negatives) * float(rho @ (1 / (1 - rho)))
    of_positives = scale * math.sqrt(math.pi / 2 / positives) * float(rho @ (rho / (1 - rho)))
    return of_negatives + of_positives + scale * float(rho @ abs(1 / (1 - eta) - 1 / (1 - rho)))


def trivial_bound(
    negatives: float, rho: ArrayLike, eta: ArrayLike, temperature: float = 1.0
) -> float:
    r"""Compute the bound that holds for any samples, because all scores lie within ±γ² = ±1/t.

    .. math:: \mathbb{E} \log\frac{1 + N\,(e^{2\gamma^2} - \eta)/(1-\eta)}{1 + N}

    The estimate and the mean that it approximates both lie between the floor e^(−γ²) and the
    largest estimate, (e^(γ²) − η·e^(−γ²))/(1 − η); the two logarithms differ most when the positive
    is farthest from the anchor.

    Args:
        negatives: N.
        rho: (C,) the probability of each class.
        eta: (C,) η of each class.
        temperature: t.

    Example:
        >>> round(trivial_bound(254, rho=[0.1] * 10, eta=[0.1] * 10), 2)
        2.09
    """
    rho = np.asarray(rho, dtype=float)
    eta = np.asarray(eta, dtype=float)
    largest = (math.exp(2 / temperature) - eta) / (1 - eta)
    return float(rho @ np.log((1 + negatives * largest) / (1 + negatives)))


def approximation_error(
    setting: Setting,
    losses: Mapping[str, DebiasedLoss],
    positive_counts: Sequence[int],
    repetitions: int = 1,
) -> DataFrame:
    """Measure |L − L̄| on the process, and the mean absolute difference per anchor, which the proof
    bounds.

    L is the loss of an estimator with the floor e^(−1/t); L̄ uses N times the exact mean over the
    anchor's true negatives instead of the estimate (equations 7 and 11). The positive in the
    numerator is drawn separately from the M positives.

    Args:
        setting: the process, with the probabilities of all classes; ``positives`` is ignored.
        losses: losses by name.
        positive_counts: the values of M.
        repetitions: factor by which the number of anchors is multiplied.

    Returns:
        One row per value: ``objective``, ``positives``, ``quantity`` ("|L − L̄|", "mean |Δ|"),
            ``value``, ``standard error``.

    Raises:
        ValueError: if scores can exceed ±1, so that logits exceed ±1/t, on which the floor is
            based.
    """
    if setting.base != "uniform" or setting.half_width + setting.largest_shift > 1:
        raise ValueError(
            f"base is {setting.base!r} with a slide of {setting.slide}, so scores can exceed ±1 and"
            " e^(−1/t) is not a bound; use the uniform base with a slide of at most 0.5."
        )
    pairs = list(itertools.product(losses, positive_counts))
    blocks = [
        np.stack(
            [_differences(scores, losses[name].estimator, count, setting) for name, count in pairs]
        )
        for scores in simulate_blocks(
            setting.varied(
                anchors=setting.anchors * repetitions, positives=max(positive_counts) + 1
            )
        )
    ]
    differences = np.hstack(blocks)
    errors = measure(np.vstack([differences, abs(differences)])).drop(columns="spread")
    rows = [(*pair, quantity) for quantity in ("|L − L̄|", "mean |Δ|") for pair in pairs]
    return DataFrame(rows, columns=["objective", "positives", "quantity"]).join(
        errors.assign(value=errors["value"].abs())
    )


def _differences(scores: Scores, estimator: Estimator, positives: int, setting: Setting) -> ndarray:
    """Return (A,) each anchor's loss minus its asymptotic loss; the last positive is in the
    numerator.
    """
    positive = scores.positive[:, -1]
    further = scores.positive[:, :positives]
    eta = scores.class_probability if getattr(estimator, "class_probability", 0) is None else None
    log_mass = estimator(further, scores.negatives, eta, temperature=setting.temperature)
    log_asymptotic = scores.exact_mean.log() + math.log(setting.negatives)
    return (
        functional.softplus(log_mass - positive) - functional.softplus(log_asymptotic - positive)
    ).numpy()

"""Closed-form score distributions of the BCL paper: a base, and the distributions of true and false
negatives derived from it.

For an anchor with base density φ and distribution function F, a true negative is the farther of two
draws with probability α, and a false negative is the nearer of two draws with probability α
(equations 11 to 14). True negatives, false negatives and their mixture then form one family with a
single parameter, the *mixing*:

.. math::

    \\phi_a = 2\\,(a + (1-2a) F)\\,\\phi,\\qquad a = \\alpha,\\; 1-\\alpha,\\; \\alpha\\tau^- +
    (1-\\alpha)\\tau^+
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.special import exprel


@dataclass(frozen=True)
class Conditional:
    """Score distribution of true negatives, false negatives or their mixture: the family defined in
    the module docstring.

    Args:
        base: φ, a continuous distribution of :mod:`scipy.stats` with its parameters.
        mixing: a in [0, 1], computed by :func:`mixing`; ½ gives the base itself.

    Example:
        >>> from scipy import stats
        >>> far = Conditional(stats.uniform(), mixing=1.0)  # the smaller of two uniform draws
        >>> float(far.distribution(0.5))
        0.75
    """

    base: Any
    mixing: float

    def density(self, score: ndarray) -> ndarray:
        """Return φ_a at a score."""
        return (
            2 * (self.mixing + (1 - 2 * self.mixing) * self.base.cdf(score)) * self.base.pdf(score)
        )

    def distribution(self, score: ndarray) -> ndarray:
        """Return the distribution function, 2aF + (1 − 2a)F²."""
        below = self.base.cdf(score)
        return below * (2 * self.mixing + (1 - 2 * self.mixing) * below)

    def support(self, scale: float = 0.0) -> ndarray:
        """Return the ends of an interval outside which e^(scale·x)·φ_a is negligible, for a base
        whose scale is at most 1.
        """
        reach = 9 + abs(scale)
        return np.clip(self.base.support(), -reach, reach)

    def expectation(self, function: Callable[[ndarray], ndarray], scale: float = 0.0) -> float:
        """Compute the mean of a function of the score by Gauss–Legendre quadrature.

        Args:
            function: smooth function of scores that grows at most like e^(scale·x).
            scale: growth rate of the function.
        """
        nodes, weights = _quadrature()
        low, high = self.support(scale)
        score = low + (high - low) * (nodes + 1) / 2
        return float(weights @ (function(score) * self.density(score))) * (high - low) / 2

    def mean_exponential(self, temperature: float) -> float:
        """Return the mean of e^(x / temperature)."""
        return self.expectation(lambda score: np.exp(score / temperature), 1 / temperature)


@cache
def _quadrature() -> tuple[ndarray, ndarray]:
    """Return Gauss–Legendre nodes and weights on (−1, 1); cached because computing 400 of them
    takes 0.1 s.
    """
    return np.polynomial.legendre.leggauss(400)


def mixing(alpha: float, false_share: float) -> float:
    """Return the mixing `a` for a share of false negatives, which is 0 for true negatives, 1 for
    false ones and τ⁺ for a mixture.

    Example:
        >>> mixing(0.9, 0.0), round(mixing(0.9, 1.0), 9), round(mixing(0.9, 0.1), 9)
        (0.9, 0.1, 0.82)
    """
    return alpha * (1 - false_share) + (1 - alpha) * false_share


def uniform_mean_exponential(rate: ndarray, mixing: float) -> ndarray:
    """Return the mean of e^(rate·x) for the base U(0, 1), in closed form for an array of positive
    rates.

    Example:
        >>> uniform_mean_exponential(np.array([2.0]), 0.5) == np.expm1(2) / 2
        array([ True])
    """
    return 2 * (mixing * exprel(rate) + (1 - 2 * mixing) * (np.exp(rate) - exprel(rate)) / rate)


def base_probability(probability: ndarray, mixing: float) -> ndarray:
    """Solve 2aF + (1 − 2a)F² = probability for F in [0, 1], to invert the family's distribution
    function.

    The formula avoids dividing by the leading coefficient, which is 0 at a = ½. For a < ½ it uses
    the mirror image, the distribution for 1 − a, to avoid cancellation.
    """
    if mixing < 0.5:
        return 1 - base_probability(1 - probability, 1 - mixing)
    root = probability / (mixing + np.sqrt(mixing * mixing + (1 - 2 * mixing) * probability))
    return np.minimum(root, 1)  # rounding can exceed 1

"""Closed-form score distributions of the BCL paper: a base, and the distributions of true and false negatives derived from it.

For an anchor with base density φ and distribution function F, a true negative is the farther of two draws with probability
α, and a false negative is the nearer of two draws with probability α (equations 11 to 14). True negatives, false negatives and
their mixture then form one family with a single parameter, the *mixing*:

.. math:: \\phi_a = 2\\,(a + (1-2a) F)\\,\\phi,\\qquad a = \\alpha,\\; 1-\\alpha,\\; \\alpha\\tau^- + (1-\\alpha)\\tau^+
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy import ndarray
from scipy.special import ndtr, ndtri


@dataclass(frozen=True)
class Uniform:
    """φ = U(low, low + width), the base used in the BCL paper; all arrays broadcast, with anchors in the first dimension.

    Args:
        low: (A, 1), or a number.
        width: width of every anchor's interval.
    """

    low: ndarray | float
    width: float

    def density(self, score: ndarray) -> ndarray:
        """Return φ at a score."""
        return np.where((score >= self.low) & (score <= self.low + self.width), 1 / self.width, 0.0)

    def distribution(self, score: ndarray) -> ndarray:
        """Return F at a score."""
        return np.clip((score - self.low) / self.width, 0, 1)

    def quantile(self, probability: ndarray) -> ndarray:
        """Return the score at a value of F."""
        return self.low + self.width * probability

    def exponential_moments(self, scale: float) -> tuple[ndarray, ndarray]:
        """Return the means of e^(scale·x) and F(x)·e^(scale·x) under φ."""
        rate = scale * self.width
        plain = np.expm1(rate) / rate
        start = np.exp(scale * np.asarray(self.low))
        return start * plain, start * ((np.exp(rate) - plain) / rate)

    def support(self, scale: float) -> tuple[float, float]:
        """Return an interval outside which φ and e^(scale·x)·φ are negligible."""
        return float(np.min(self.low)), float(np.max(self.low)) + self.width


@dataclass(frozen=True)
class Normal:
    """φ = N(location, 1), the base in Fig. 3 of the BCL paper, with the methods of :class:`Uniform`.

    Args:
        location: (A, 1), or a number.
    """

    location: ndarray | float

    def density(self, score: ndarray) -> ndarray:
        """Return φ at a score."""
        return np.exp(-((score - self.location) ** 2) / 2) / np.sqrt(2 * np.pi)

    def distribution(self, score: ndarray) -> ndarray:
        """Return F at a score."""
        return ndtr(score - self.location)

    def quantile(self, probability: ndarray) -> ndarray:
        """Return the score at a value of F."""
        return self.location + ndtri(probability)

    def exponential_moments(self, scale: float) -> tuple[ndarray, ndarray]:
        """Return the means of e^(scale·x) and F(x)·e^(scale·x) under φ."""
        plain = np.exp(scale * np.asarray(self.location) + scale**2 / 2)
        return plain, plain * ndtr(scale / np.sqrt(2))

    def support(self, scale: float) -> tuple[float, float]:
        """Return an interval outside which φ and e^(scale·x)·φ are negligible."""
        reach = 9 + abs(scale)
        return float(np.min(self.location)) - reach, float(np.max(self.location)) + reach


@dataclass(frozen=True)
class Conditional:
    """Score distribution of true negatives, false negatives or their mixture: the family defined in the module docstring.

    Args:
        base: φ.
        mixing: a in [0, 1], computed by :func:`mixing`; ½ gives the base itself.

    Example:
        >>> far = Conditional(Uniform(0.0, 1.0), mixing=1.0)       # the smaller of two uniform draws
        >>> float(far.distribution(0.5)), float(far.quantile(0.75))
        (0.75, 0.5)
    """

    base: Uniform | Normal
    mixing: float

    def density(self, score: ndarray) -> ndarray:
        """Return φ_a at a score."""
        return 2 * (self.mixing + (1 - 2 * self.mixing) * self.base.distribution(score)) * self.base.density(score)

    def distribution(self, score: ndarray) -> ndarray:
        """Return the distribution function, 2aF + (1 − 2a)F²."""
        below = self.base.distribution(score)
        return below * (2 * self.mixing + (1 - 2 * self.mixing) * below)

    def quantile(self, probability: ndarray) -> ndarray:
        """Invert the distribution function; applied to uniform random numbers, it draws scores."""
        return self.base.quantile(base_probability(probability, self.mixing))

    def mean_exponential(self, temperature: float) -> ndarray:
        """Return the exact mean of e^(x / temperature), with the shape of the base's anchors."""
        plain, weighted = self.base.exponential_moments(1 / temperature)
        return 2 * (self.mixing * plain + (1 - 2 * self.mixing) * weighted)

    def expectation(self, function: Callable[[ndarray], ndarray], scale: float = 0.0) -> float:
        """Compute the mean of a function of the score by Gauss–Legendre quadrature; the base must have one anchor.

        Args:
            function: smooth function of scores that grows at most like e^(scale·x).
            scale: growth rate of the function.
        """
        nodes, weights = _quadrature()
        low, high = self.base.support(scale)
        score = low + (high - low) * (nodes + 1) / 2
        return float(weights @ (function(score) * self.density(score))) * (high - low) / 2


@cache
def _quadrature() -> tuple[ndarray, ndarray]:
    """Return Gauss–Legendre nodes and weights on (−1, 1); cached because computing 400 of them takes 0.1 s."""
    return np.polynomial.legendre.leggauss(400)


def mixing(alpha: float, false_share: float) -> float:
    """Return a for negatives with a given share of false ones: 0 for true negatives, 1 for false ones, τ⁺ for the mixture.

    Example:
        >>> mixing(0.9, 0.0), round(mixing(0.9, 1.0), 9), round(mixing(0.9, 0.1), 9)
        (0.9, 0.1, 0.82)
    """
    return alpha * (1 - false_share) + (1 - alpha) * false_share


def base_probability(probability: ndarray, mixing: float | ndarray) -> ndarray:
    """Solve 2aF + (1 − 2a)F² = probability for F in [0, 1], to invert the family's distribution function.

    The formula avoids dividing by the leading coefficient, which is 0 at a = ½. For a < ½ it uses the mirror image, the
    distribution for 1 − a, to avoid cancellation.
    """
    mirrored = np.asarray(mixing) < 0.5
    far = np.where(mirrored, 1 - mixing, mixing)
    value = np.where(mirrored, 1 - probability, probability)
    root = np.minimum(value / (far + np.sqrt(far * far + (1 - 2 * far) * value)), 1)  # rounding can exceed 1
    return np.where(mirrored, 1 - root, root)

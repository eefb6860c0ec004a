"""The distributions of scores in the BCL paper, in closed form: a base, and what true and false negatives make of it.

For an anchor with the base density φ and its distribution function F, a true negative is the farther of two
draws with probability α, a false one the nearer (equations 11 to 14). True negatives, false negatives and
their mixture are then one family with one number, the *mixing*:

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
    """φ = U(low, low + width), the BCL paper's choice; all arrays broadcast, anchors first.

    Args:
        low: (A, 1), or a number.
        width: of every anchor's interval.
    """

    low: ndarray | float
    width: float

    def density(self, score: ndarray) -> ndarray:
        """φ at a score."""
        return np.where((score >= self.low) & (score <= self.low + self.width), 1 / self.width, 0.0)

    def distribution(self, score: ndarray) -> ndarray:
        """F at a score."""
        return np.clip((score - self.low) / self.width, 0, 1)

    def quantile(self, probability: ndarray) -> ndarray:
        """The score at a value of F."""
        return self.low + self.width * probability

    def exponential_moments(self, scale: float) -> tuple[ndarray, ndarray]:
        """The means of e^(scale·x) and of F(x)·e^(scale·x) over φ."""
        rate = scale * self.width
        plain = np.expm1(rate) / rate
        start = np.exp(scale * np.asarray(self.low))
        return start * plain, start * ((np.exp(rate) - plain) / rate)

    def support(self, scale: float) -> tuple[float, float]:
        """An interval outside of which neither φ nor e^(scale·x)·φ matters."""
        return float(np.min(self.low)), float(np.max(self.low)) + self.width


@dataclass(frozen=True)
class Normal:
    """φ = N(location, 1), the base of the BCL paper's Fig. 3, with the methods of :class:`Uniform`.

    Args:
        location: (A, 1), or a number.
    """

    location: ndarray | float

    def density(self, score: ndarray) -> ndarray:
        """φ at a score."""
        return np.exp(-((score - self.location) ** 2) / 2) / np.sqrt(2 * np.pi)

    def distribution(self, score: ndarray) -> ndarray:
        """F at a score."""
        return ndtr(score - self.location)

    def quantile(self, probability: ndarray) -> ndarray:
        """The score at a value of F."""
        return self.location + ndtri(probability)

    def exponential_moments(self, scale: float) -> tuple[ndarray, ndarray]:
        """The means of e^(scale·x) and of F(x)·e^(scale·x) over φ."""
        plain = np.exp(scale * np.asarray(self.location) + scale**2 / 2)
        return plain, plain * ndtr(scale / np.sqrt(2))

    def support(self, scale: float) -> tuple[float, float]:
        """Where the density matters."""
        reach = 9 + abs(scale)
        return float(np.min(self.location)) - reach, float(np.max(self.location)) + reach


@dataclass(frozen=True)
class Conditional:
    """Scores of true negatives, of false ones, or of both: the family of the module's equation.

    Args:
        base: φ.
        mixing: a in [0, 1]; :func:`mixing` says which. ½ is the base itself.

    Example:
        >>> far = Conditional(Uniform(0.0, 1.0), mixing=1.0)       # the smaller of two uniform draws
        >>> float(far.distribution(0.5)), float(far.quantile(0.75))
        (0.75, 0.5)
    """

    base: Uniform | Normal
    mixing: float

    def density(self, score: ndarray) -> ndarray:
        """φ_a at a score."""
        return 2 * (self.mixing + (1 - 2 * self.mixing) * self.base.distribution(score)) * self.base.density(score)

    def distribution(self, score: ndarray) -> ndarray:
        """The distribution function, 2aF + (1 − 2a)F²."""
        below = self.base.distribution(score)
        return below * (2 * self.mixing + (1 - 2 * self.mixing) * below)

    def quantile(self, probability: ndarray) -> ndarray:
        """The score at a value of the distribution function, so draws are its values at uniform numbers."""
        return self.base.quantile(base_probability(probability, self.mixing))

    def mean_exponential(self, temperature: float) -> ndarray:
        """The exact mean of e^(x / temperature), an array like the base's anchors."""
        plain, weighted = self.base.exponential_moments(1 / temperature)
        return 2 * (self.mixing * plain + (1 - 2 * self.mixing) * weighted)

    def expectation(self, function: Callable[[ndarray], ndarray], scale: float = 0.0) -> float:
        """The mean of a function of the score, for a base of one anchor, by Gauss–Legendre quadrature.

        Args:
            function: of scores, smooth; at most as large as e^(scale·x).
            scale: how fast it grows.
        """
        nodes, weights = _quadrature()
        low, high = self.base.support(scale)
        score = low + (high - low) * (nodes + 1) / 2
        return float(weights @ (function(score) * self.density(score))) * (high - low) / 2


@cache
def _quadrature() -> tuple[ndarray, ndarray]:
    """Nodes and weights of Gauss and Legendre's rule on (−1, 1); 400 take a tenth of a second to find."""
    return np.polynomial.legendre.leggauss(400)


def mixing(alpha: float, false_share: float) -> float:
    """The a of a sample of negatives of which a share is false: 0 for true ones, 1 for false ones, τ⁺ for both.

    Example:
        >>> mixing(0.9, 0.0), round(mixing(0.9, 1.0), 9), round(mixing(0.9, 0.1), 9)
        (0.9, 0.1, 0.82)
    """
    return alpha * (1 - false_share) + (1 - alpha) * false_share


def base_probability(probability: ndarray, mixing: float | ndarray) -> ndarray:
    """F where the family's distribution function has a value: the root in [0, 1] of 2aF + (1 − 2a)F² = value.

    Nothing is divided by the leading coefficient, which is 0 at a = ½, and nothing cancels at a < ½, whose
    distribution is the mirror image of that of 1 − a.
    """
    mirrored = np.asarray(mixing) < 0.5
    far = np.where(mirrored, 1 - mixing, mixing)
    value = np.where(mirrored, 1 - probability, probability)
    root = np.minimum(value / (far + np.sqrt(far * far + (1 - 2 * far) * value)), 1)  # rounding can exceed 1
    return np.where(mirrored, 1 - root, root)

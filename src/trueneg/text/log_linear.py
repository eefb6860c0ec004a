r"""The log-linear assumption :math:`\rho(c_x) = a\, p(x)^k`, fitted to and checked against known
class probabilities.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from trueneg.randomness import rng_for


class LogLinearFit(NamedTuple):
    """A log-linear fit and its quality.

    Attributes:
        a: η of a text with likelihood 1.
        k: exponent; negative if likely texts belong to rare classes.
        spearman: rank correlation between log-likelihood and class probability; it does not depend
            on a and k.
        calibration: one row per quantile bin of the likelihood: ``texts`` (total weight),
            ``log_likelihood`` (mean), ``predicted`` and ``actual`` (means of a·p^k and of the class
            probability).
    """

    a: float
    k: float
    spearman: float
    calibration: DataFrame


def fit_log_linear(
    log_p: ndarray,
    class_probability: ndarray,
    weights: ndarray | None = None,
    bins: int = 10,
) -> LogLinearFit:
    r"""Fit a and k by weighted least squares in log space.

    .. math:: \min_{a, k} \sum_i w_i (\log \rho_i - \log a - k \log p_i)^2

    Args:
        log_p: (n,) log-likelihoods, at least two of them different.
        class_probability: (n,) probability of each text's class, in (0, 1].
        weights: (n,) number of occurrences of each text; None: 1 each.
        bins: number of bins of the calibration table; empty bins are left out.

    Example:
        >>> log_p = np.array([-2.0, -4.0, -8.0])
        >>> fit = fit_log_linear(log_p, 0.2 * np.exp(0.35 * log_p))
        >>> round(fit.a, 6), round(fit.k, 6), round(fit.spearman, 6)
        (0.2, 0.35, 1.0)
    """
    weights = np.ones(len(log_p)) if weights is None else np.asarray(weights, np.float64)
    k, log_a = np.polyfit(log_p, np.log(class_probability), 1, w=np.sqrt(weights))
    order = np.argsort(log_p, kind="stable")
    bin_of = np.empty(len(log_p), np.int64)
    share = weights[order] / weights.sum()
    bin_of[order] = np.minimum((np.cumsum(share) - share / 2) * bins, bins - 1)
    predicted = np.exp(np.minimum(log_a + k * log_p, 0.0))
    weighted = DataFrame(
        {
            "texts": weights,
            "log_likelihood": log_p * weights,
            "predicted": predicted * weights,
            "actual": class_probability * weights,
        }
    )
    sums = weighted.groupby(bin_of).sum()
    calibration = sums.div(sums["texts"], axis=0).assign(texts=sums["texts"]).reset_index(drop=True)
    return LogLinearFit(
        float(np.exp(log_a)),
        float(k),
        weighted_spearman(log_p, class_probability, weights),
        calibration,
    )


def weighted_spearman(x: ndarray, y: ndarray, weights: ndarray) -> float:
    """Compute Spearman's ρ of weighted pairs, as if each pair were repeated ``weights`` times.

    Args:
        x: (n,) values.
        y: (n,) values.
        weights: (n,) non-negative weights.

    Returns:
        ρ, or NaN if x or y is constant.
    """
    present = weights > 0
    share = weights[present] / weights[present].sum()
    covariance = np.cov(
        [_ranks(values[present], share) for values in (x, y)], ddof=0, aweights=share
    )
    spread = np.sqrt(covariance[0, 0] * covariance[1, 1])
    return float(covariance[0, 1] / spread) if spread > 1e-12 else math.nan


def bootstrap_spearman(
    x: ndarray,
    y: ndarray,
    weights: ndarray,
    groups: ndarray,
    seed: int,
    draws: int = 1000,
) -> tuple[float, float]:
    """Compute the 95 % percentile interval of Spearman's ρ by resampling classes.

    All texts of a class share one class probability, so the independent units are classes, not
    texts.

    Args:
        x: (n,) values.
        y: (n,) values.
        weights: (n,) number of occurrences of each text.
        groups: (n,) class of each text, integers from 0.
        seed: seed of the bootstrap.
        draws: number of bootstrap samples.
    """
    generator = rng_for(seed, "bootstrap of classes")
    classes = int(groups.max()) + 1
    times = generator.multinomial(classes, np.full(classes, 1 / classes), draws)
    correlations = [weighted_spearman(x, y, weights * drawn[groups]) for drawn in times]
    if not np.isfinite(correlations).any():
        return math.nan, math.nan
    low, high = np.nanpercentile(correlations, [2.5, 97.5])
    return float(low), float(high)


def _ranks(values: ndarray, share: ndarray) -> ndarray:
    """Return weighted mid-ranks as fractions of the total weight."""
    _, inverse = np.unique(values, return_inverse=True)
    of_value = np.bincount(inverse, share)
    return (np.cumsum(of_value) - of_value / 2)[inverse]

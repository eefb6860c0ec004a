r"""The log-linear assumption :math:`\rho(c_x) = a\, p(x)^k`, fitted and checked against class probabilities that are known."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from trueneg.randomness import seed_for


class LogLinearFit(NamedTuple):
    """A fit, and how well it holds.

    Attributes:
        a: η of a text of likelihood 1.
        k: exponent; may come out negative: then likely texts are of rare classes.
        spearman: rank correlation of log-likelihood and class probability, which a and k cannot change.
        calibration: by quantiles of the likelihood: ``texts`` (weight), ``log_likelihood`` (mean), ``predicted`` and ``actual``
            (means of a·p^k and of the class probability).
    """

    a: float
    k: float
    spearman: float
    calibration: pd.DataFrame


def fit_log_linear(
    log_p: np.ndarray, class_probability: np.ndarray, weights: np.ndarray | None = None, bins: int = 10
) -> LogLinearFit:
    r"""a and k by weighted least squares in log space.

    .. math:: \min_{a, k} \sum_i w_i (\log \rho_i - \log a - k \log p_i)^2

    Args:
        log_p: (n,) log-likelihoods.
        class_probability: (n,) of each text's own class, in (0, 1].
        weights: (n,) how often each text occurs; None: once.
        bins: of the calibration table; fewer where likelihoods repeat.

    Raises:
        ValueError: if the sizes differ, there are fewer than 2 different likelihoods, or a value is out of range.

    Example:
        >>> log_p = np.array([-2.0, -4.0, -8.0])
        >>> fit = fit_log_linear(log_p, 0.2 * np.exp(0.35 * log_p))
        >>> round(fit.a, 6), round(fit.k, 6), round(fit.spearman, 6)
        (0.2, 0.35, 1.0)
    """
    log_p, class_probability, weights = _checked(log_p, class_probability, weights)
    log_rho, share = np.log(class_probability), weights / weights.sum()
    x, y = log_p - share @ log_p, log_rho - share @ log_rho
    k = float((share * x) @ y / ((share * x) @ x))
    log_a = float(share @ log_rho - k * (share @ log_p))
    predicted = np.exp(np.minimum(log_a + k * log_p, 0.0))
    order = np.argsort(log_p, kind="stable")
    middle = np.cumsum(share[order]) - share[order] / 2
    of = np.empty(len(log_p), np.int64)
    of[order] = np.minimum((middle * bins).astype(np.int64), bins - 1)
    table = pd.DataFrame(
        {"bin": of, "texts": weights, "log_likelihood": log_p, "predicted": predicted, "actual": class_probability}
    )
    for column in ("log_likelihood", "predicted", "actual"):
        table[column] *= table["texts"]
    summed = table.groupby("bin").sum()
    calibration = summed.div(summed["texts"], axis=0).assign(texts=summed["texts"]).reset_index(drop=True)
    return LogLinearFit(float(np.exp(log_a)), k, weighted_spearman(log_p, class_probability, weights), calibration)


def weighted_spearman(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Spearman's ρ of pairs that occur several times, as if each were written so often.

    Args:
        x: (n,) values.
        y: (n,) values.
        weights: (n,) at least 0.

    Returns:
        ρ; NaN if either does not vary.
    """
    present = weights > 0
    share = weights[present] / weights[present].sum()
    ranks = [_ranks(values[present], share) for values in (x, y)]
    centred = [rank - share @ rank for rank in ranks]
    spread = np.sqrt((share @ centred[0] ** 2) * (share @ centred[1] ** 2))
    return float((share * centred[0]) @ centred[1] / spread) if spread > 1e-12 else float("nan")


def bootstrap_spearman(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, groups: np.ndarray, seed: int, draws: int = 1000
) -> tuple[float, float]:
    """95 % percentile interval of Spearman's ρ over classes that are drawn anew.

    All texts of a class have one class probability, so classes, not texts, are the independent units.

    Args:
        x: (n,) values.
        y: (n,) values.
        weights: (n,) how often each text occurs.
        groups: (n,) class of each text, integers from 0.
        seed: of the draws.
        draws: how many.
    """
    generator = np.random.default_rng(seed_for(seed, "bootstrap of classes"))
    classes = int(groups.max()) + 1
    times = generator.multinomial(classes, np.full(classes, 1 / classes), draws)
    found = [weighted_spearman(x, y, weights * drawn[groups]) for drawn in times]
    low, high = np.nanpercentile(found, [2.5, 97.5]) if np.isfinite(found).any() else (float("nan"), float("nan"))
    return float(low), float(high)


def _ranks(values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Mid-ranks, as shares of the whole."""
    _, inverse = np.unique(values, return_inverse=True)
    of_value = np.bincount(inverse, share)
    return (np.cumsum(of_value) - of_value / 2)[inverse]


def _checked(log_p: np.ndarray, class_probability: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, ...]:
    log_p, class_probability = np.asarray(log_p, np.float64), np.asarray(class_probability, np.float64)
    weights = np.ones(len(log_p)) if weights is None else np.asarray(weights, np.float64)
    if not (log_p.shape == class_probability.shape == weights.shape) or log_p.ndim != 1:
        raise ValueError(f"the shapes are {log_p.shape}, {class_probability.shape} and {weights.shape}, expected one (n,).")
    if not (np.isfinite(log_p).all() and (class_probability > 0).all() and (class_probability <= 1).all()):
        raise ValueError("expected finite log-likelihoods and class probabilities above 0 and at most 1.")
    if not ((weights >= 0).all() and len(np.unique(log_p[weights > 0])) > 1):
        raise ValueError("expected weights of at least 0 and at least 2 different log-likelihoods; there is nothing to fit.")
    return log_p, class_probability, weights

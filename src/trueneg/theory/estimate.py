"""Evaluate estimators on simulated scores: their bias and mean squared error.

The estimators are those of :mod:`trueneg.losses`, evaluated by their signed mean in linear space, because a debiased estimate
without a bound can be negative and then has no logarithm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from torch import Tensor

from trueneg.losses.base import Estimator
from trueneg.losses.estimators import Debiased, Uncorrected
from trueneg.losses.estimators.bayesian import Bayesian, recovered_distribution, released_weight, true_negative_probability
from trueneg.specs.experiments import BIASED, DCL, FORM_NAMES, REFERENCES, TRUE
from trueneg.theory.distributions import Conditional, mixing
from trueneg.theory.scores import Scores, Setting, simulate_blocks

NO_HARDNESS = {"paper": 0.0, "released": 0.5, "consistent": 0.0}  # the β at which weights do not depend on nearness


@dataclass(frozen=True)
class Competitor:
    """An estimator in a comparison; it uses the first `positives` positives, or all if None."""

    estimator: Estimator
    positives: int | None = None


def estimate_true_negative_mean(scores: Scores, estimator: Estimator, positives: int | None = None) -> Tensor:
    """Estimate the mean of e^u over each anchor's true negatives; the result can be negative.

    Equations 28 to 30 of the BCL paper: g of an estimator without a bound.

    Args:
        scores: from :func:`trueneg.theory.simulate_scores`.
        estimator: estimator from :mod:`trueneg.losses`. If it needs a class probability but none is set, it receives each
            anchor's true one; if it needs labels, it receives them.
        positives: number of positives used per anchor; None: all.

    Returns:
        Shape (A,), float64.

    Raises:
        ValueError: if more positives are requested than the scores contain.

    Example:
        >>> from trueneg.losses import Uncorrected
        >>> from trueneg.theory import Setting, simulate_scores
        >>> scores = simulate_scores(Setting(anchors=3))
        >>> bool(torch.allclose(estimate_true_negative_mean(scores, Uncorrected()), scores.negatives.exp().mean(1)))
        True
    """
    available = scores.positive.shape[1]
    if positives is not None and not 1 <= positives <= available:
        raise ValueError(f"positives is {positives}, but the scores hold {available} an anchor; simulate more.")
    own = getattr(estimator, "class_probability", None)
    known = {"same_class": ~scores.is_true} if estimator.needs_labels else {}
    eta = scores.class_probability if own is None else None
    return estimator.mean(scores.positive[:, :positives], scores.negatives, eta, **known)


def competitors(alpha: float, class_probability: float | None, beta: float = 0.0) -> dict[str, Competitor]:
    """Return the estimators that the BCL paper compares, and the two other forms of BCL.

    Args:
        alpha: α given to the BCL forms.
        class_probability: τ⁺ given to all estimators; None: each anchor's true one.
        beta: β of the paper's and the consistent form; larger values give more weight to near negatives. The released
            form always uses β = ½, which does not.
    """
    beta_of = {**NO_HARDNESS, "paper": beta, "consistent": beta}
    forms = {name: Bayesian(alpha, beta_of[form], class_probability, form) for form, name in FORM_NAMES.items()}
    return {name: Competitor(each) for name, each in {BIASED: Uncorrected(), DCL: Debiased(class_probability), **forms}.items()}


def measure_errors(setting: Setting, contestants: Mapping[str, Competitor], repetitions: int = 1) -> pd.DataFrame:
    """Measure the mean, bias and mean squared error of estimators on the process, with standard errors.

    Each anchor's estimate is compared with two references: the mean over the drawn true negatives, as in the BCL paper, where
    sampling noise cancels; and the exact mean. Anchors without a true negative are left out of the first comparison.

    Args:
        setting: the process; ``anchors`` is the number per repetition.
        contestants: estimators by name.
        repetitions: number of repetitions.

    Returns:
        One row per number: ``estimator`` (the true mean has its own rows), ``reference``, ``quantity`` ("mean",
        "bias", "mean squared error"), ``value``, ``standard error``, and ``spread``, the standard deviation of the
        value over repetitions (NaN for a single repetition). The reference of a mean is empty.
    """
    tallies = tally_errors(setting, contestants, repetitions)
    frames = []
    for reference, tally in zip(REFERENCES, tallies, strict=True):
        for quantity, name in (("bias", "error"), ("mean squared error", "squared")):
            frames.append(tally.of(name).assign(estimator=list(contestants), reference=reference, quantity=quantity))
    means = tallies[1].of("estimate")
    frames.append(means.assign(estimator=[*contestants, TRUE], reference="", quantity="mean"))
    return pd.concat(frames, ignore_index=True)


class Tally:
    """Accumulates sums over anchors block by block, so memory use does not grow with the number of anchors.

    Args:
        repetitions: number of repetitions.
        anchors: number of anchors per repetition.
    """

    def __init__(self, repetitions: int, anchors: int):
        self.anchors = anchors
        self.count = np.zeros(repetitions)
        self.sums: dict[str, ndarray] = {}
        self.products: dict[str, ndarray] = {}

    def add(self, first: int, valid: ndarray, **values: ndarray) -> None:
        """Add a block of (E, A) values by name; `first` is the index of its first anchor, and invalid anchors are skipped."""
        repetition = (first + np.flatnonzero(valid)) // self.anchors
        self.count += np.bincount(repetition, minlength=self.count.size)
        for name, all_anchors in values.items():
            kept = all_anchors[:, valid]
            sums = np.stack([np.bincount(repetition, line, self.count.size) for line in kept])
            self.sums[name] = self.sums.get(name, 0) + sums
            self.products[name] = self.products.get(name, 0) + kept @ kept.T

    def of(self, name: str) -> pd.DataFrame:
        """Return one row per value, with its mean (``value``), ``standard error`` and ``spread`` over repetitions."""
        means, covariance = self.moments(name)
        of_repetition = self.sums[name] / self.count
        spread = of_repetition.std(axis=1, ddof=1) if self.count.size > 1 else np.nan
        return pd.DataFrame({"value": means, "standard error": np.sqrt(np.diag(covariance)), "spread": spread})

    def moments(self, name: str) -> tuple[ndarray, ndarray]:
        """Return (E,) means and the (E, E) covariance of the means."""
        total = self.count.sum()
        means = self.sums[name].sum(axis=1) / total
        covariance = self.products[name] / total - np.outer(means, means)
        return means, covariance.clip(min=np.where(np.eye(len(means)), 0, -np.inf)) / total


def tally_errors(setting: Setting, contestants: Mapping[str, Competitor], repetitions: int) -> list[Tally]:
    """Tally the ``error`` and ``squared`` error of each estimator per reference; the second tally also has ``estimate``."""
    tallies = [Tally(repetitions, setting.anchors) for _ in REFERENCES]
    first = 0
    for scores in simulate_blocks(replace(setting, anchors=setting.anchors * repetitions)):
        estimates = np.stack(
            [estimate_true_negative_mean(scores, each.estimator, each.positives).numpy() for each in contestants.values()]
        )
        drawn, exact = scores.is_true.any(1).numpy(), scores.exact_mean.numpy()
        of_drawn, of_exact = estimates - scores.true_mean.numpy(), estimates - exact
        tallies[0].add(first, drawn, error=of_drawn, squared=of_drawn**2)
        everyone, estimates = np.ones_like(drawn), np.concatenate([estimates, exact[None]])
        tallies[1].add(first, everyone, error=of_exact, squared=of_exact**2, estimate=estimates)
        first += len(drawn)
    return tallies


def limiting_bias(setting: Setting, contestant: str) -> float:
    """Compute by quadrature the bias that remains in the limit of many negatives and positives per anchor.

    Args:
        setting: the process, with one class probability for all anchors.
        contestant: a name of :func:`competitors`; the BCL forms are given the true α.
    """
    eta, rate = setting.class_probability, 1 / setting.temperature
    base = setting.base_at(0.0)
    population = Conditional(base, mixing(setting.alpha, eta))
    true_mean = float(Conditional(base, mixing(setting.alpha, 0.0)).mean_exponential(setting.temperature))
    # A shift multiplies every e^u by a factor, so its mean over shifts is a constant factor.
    reach = setting.largest_shift * rate
    factor = np.sinh(reach) / reach if reach > 0 else 1.0
    if contestant == DCL:
        return 0.0
    if contestant == BIASED:
        return factor * (float(population.mean_exponential(setting.temperature)) - true_mean)
    form = next(form for form, name in FORM_NAMES.items() if name == contestant)

    def weight(score: ndarray) -> ndarray:
        return importance(population.distribution(score), score * rate, setting.alpha, NO_HARDNESS[form], eta, form)

    total = population.expectation(lambda score: weight(score) * np.exp(rate * score), rate)
    norm = 1.0 if form == "released" else population.expectation(weight)
    return factor * (total / norm - true_mean)


def importance(share: ndarray, logit: ndarray, alpha: float, beta: float, eta: float, form: str) -> ndarray:
    """Compute ω of a BCL form at `share` = F_u, the fraction of negatives that are no closer, without normalisation."""
    distribution = torch.from_numpy(share)
    below = distribution if form == "paper" else recovered_distribution(distribution, alpha, eta)
    if form == "released":
        return released_weight(below, alpha, beta, eta).numpy()
    return (true_negative_probability(below, alpha, eta) * (beta * torch.from_numpy(logit)).exp()).numpy()

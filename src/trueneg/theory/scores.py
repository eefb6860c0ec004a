"""Simulate a trained encoder's scores for negatives and positives with the BCL paper's stochastic
process.

Implements algorithms 1 to 3 of its appendix for all anchors at once. Each anchor has its own base
distribution, shifted by a random amount; each of its negatives is false with the probability of the
anchor's class.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy import ndarray
from pydantic import Field, field_validator, model_validator
from scipy import stats
from scipy.special import ndtri
from torch import Tensor

from trueneg.randomness import seed_for
from trueneg.specs.kinds.theory import (
    LOWEST_RELEASED_TEMPERATURE,
    ProcessSettings,
    SweepSettings,
)
from trueneg.specs.settings import Probability
from trueneg.theory.distributions import (
    Conditional,
    base_probability,
    mixing,
    uniform_mean_exponential,
)

HALF_WIDTH = 0.5  # half the width of the uniform base interval, as in the paper
DRAWS_PER_BLOCK = 2**19  # 4 MB per array, so that a block's arrays fit in the CPU cache


class Setting(ProcessSettings):
    """Parameters of the process; the defaults are those of the BCL paper's numerical experiments.

    Args:
        alpha: α in [0.5, 1], the share of the true negatives that are the farther of two draws of
            the base, and of the false ones that are the nearer.
        class_probability: τ⁺ in [0, 1), the probability that a negative is false. Not specified in
            the paper; 0.1 here.
        slide: the largest shift of an anchor's base interval, in [0, 1]; shifts are uniform in
            ±slide, unless limited (see ``temperature``).
        temperature: t > 0; logits are scores / t. With the uniform base, the interval is clipped to
            ±1/t² and shifts are limited so that scores stay inside; the normal base is unbounded.
        anchors: number of anchors.
        negatives: N, the number of negatives per anchor.
        positives: K, the number of positives per anchor: further samples of its class.
        base: "uniform", U(−0.5, 0.5), or "normal", N(0, 1), before the shift; or "released", the
            process of the authors' public simulation code, which differs from the paper's: U(a, b),
            where a and b of each anchor lie inside ±1/t², at random distances of at most slide/t²
            from the ends.
        seed: seed of all random draws. Each kind of draw has its own generator, so settings share
            draws where possible.
        classes: the probabilities of all classes, which sum to 1: each anchor's class is drawn from
            them, and its probability replaces τ⁺. Empty: all anchors have the same τ⁺.

    Raises:
        ValueError: if a value is out of range.
    """

    base: Literal["uniform", "normal", "released"] = "uniform"
    classes: tuple[Probability, ...] = Field((), strict=False)  # also accepts a list

    @field_validator("classes")
    @classmethod
    def _sum_to_one(cls, classes: tuple[float, ...]) -> tuple[float, ...]:
        if classes and not math.isclose(sum(classes), 1, rel_tol=1e-6):
            raise ValueError(
                f"the sum of classes is {sum(classes):g}; expected probabilities that sum to 1"
            )
        return classes

    def varied(self, **changes: Any) -> Self:
        """Return a validated copy with some values changed."""
        return type(self)(**{**dict(self), **changes})

    @model_validator(mode="after")
    def _representable(self) -> Self:
        if self.base == "released" and self.temperature < LOWEST_RELEASED_TEMPERATURE:
            expected = (
                f"at least {LOWEST_RELEASED_TEMPERATURE}, because squares of e^(1/t³) overflow"
                " below"
            )
            raise ValueError(
                f"temperature is {self.temperature:g} with base: released; expected {expected}"
            )
        return self

    @property
    def half_width(self) -> float:
        """Half the width of the uniform base's interval, clipped to ±1/t²; of the widest interval
        of the released base.
        """
        limit = 1 / self.temperature**2
        return limit if self.base == "released" else min(HALF_WIDTH, limit)

    @property
    def largest_shift(self) -> float:
        """The slide, limited so that scores stay within ±1/t² (uniform base only); 0 for the
        released base, which narrows.
        """
        return (
            self.slide
            if self.base == "normal"
            else min(self.slide, 1 / self.temperature**2 - self.half_width)
        )

    def base_quantile(self, probability: ndarray) -> ndarray:
        """Return the quantile of the base at a value of F, without a shift; scipy's own method is
        slow for large arrays.
        """
        return (
            ndtri(probability) if self.base == "normal" else self.half_width * (2 * probability - 1)
        )

    def population(self, false_share: float) -> Conditional:
        """Return the score distribution of negatives with a given share of false ones, for the
        unshifted (or widest) interval.
        """
        base = (
            stats.norm()
            if self.base == "normal"
            else stats.uniform(-self.half_width, 2 * self.half_width)
        )
        return Conditional(base, mixing(self.alpha, false_share))


class Experiment(Setting, SweepSettings):
    """Parameters of the process, and the values that the experiments sweep."""


@dataclass(frozen=True)
class Scores:
    """Simulated logits of A anchors and the ground truth behind them; float64.

    Attributes:
        positive: (A, K) logits of samples of the anchor's class.
        negatives: (A, N) logits.
        is_true: (A, N) bool, whether each negative is a true negative.
        class_probability: (A,) τ⁺ of each anchor.
        exact_mean: (A,) mean of e^u over the distribution of the anchor's true negatives.
    """

    positive: Tensor
    negatives: Tensor
    is_true: Tensor
    class_probability: Tensor
    exact_mean: Tensor

    @property
    def true_mean(self) -> Tensor:
        """(A,) mean of e^u over the drawn true negatives (equation 27); NaN where there are
        none.
        """
        return (self.negatives.exp() * self.is_true).sum(-1) / self.is_true.sum(-1)


def simulate_scores(setting: Setting | None = None) -> Scores:
    """Draw the scores of all anchors at once, by inverse transform sampling.

    Args:
        setting: parameters of the process; None: those of the paper.

    Returns:
        Logits of shapes (A, K) and (A, N), with their ground truth.

    Example:
        >>> scores = simulate_scores(Setting(anchors=2, negatives=62))
        >>> (
        ...     scores.negatives.shape,
        ...     bool((scores.negatives.abs() <= 1.2).all()),
        ... )  # ±0.6 at most, divided by 0.5
        (torch.Size([2, 62]), True)
    """
    setting = setting or Setting()
    return next(simulate_blocks(setting, setting.anchors * (setting.negatives + setting.positives)))


def simulate_blocks(setting: Setting, draws_per_block: int = DRAWS_PER_BLOCK) -> Iterator[Scores]:
    """Yield the draws of `simulate_scores` in blocks of about `draws_per_block` scores (or one
    anchor), to limit memory use.
    """
    purposes = ("class", "shift", "population", "negatives", "positives")
    generators = {
        purpose: np.random.default_rng(seed_for(setting.seed, purpose)) for purpose in purposes
    }
    size = max(1, draws_per_block // (setting.negatives + setting.positives))
    for start in range(0, setting.anchors, size):
        yield _block(setting, min(size, setting.anchors - start), generators)


def _block(setting: Setting, count: int, generators: dict[str, np.random.Generator]) -> Scores:
    classes = setting.classes or (setting.class_probability,)
    # Divided by their sum, because choice tolerates a rounding error of only 1e-8.
    eta = generators["class"].choice(
        classes, count, p=np.divide(classes, sum(classes)) if setting.classes else None
    )
    if setting.base == "released":
        # −a and b, in units of 1/t²
        ends = 1 - setting.slide * generators["shift"].random((count, 2))
        shift = setting.half_width * np.diff(ends) / 2
        scale = ends.mean(axis=1, keepdims=True)
    else:
        shift = setting.largest_shift * generators["shift"].uniform(-1, 1, (count, 1))
        scale = np.ones(1)
    is_true = generators["population"].random((count, setting.negatives)) >= eta[:, None]
    # False and true negatives have mirrored distributions, so one root serves both. Positives are
    # drawn like false negatives.
    root = base_probability(generators["negatives"].random(is_true.shape), setting.alpha)
    negatives = shift + scale * setting.base_quantile(np.where(is_true, root, 1 - root))
    root = base_probability(
        generators["positives"].random((count, setting.positives)), setting.alpha
    )
    positive = shift + scale * setting.base_quantile(1 - root)
    if setting.base == "released":
        half_widths = scale[:, 0] * setting.half_width / setting.temperature
        unshifted_mean = np.exp(-half_widths) * uniform_mean_exponential(
            2 * half_widths, setting.alpha
        )
    else:
        unshifted_mean = setting.population(0.0).mean_exponential(setting.temperature)
    exact_mean = unshifted_mean * np.exp(shift[:, 0] / setting.temperature)
    logits = (positive / setting.temperature, negatives / setting.temperature)
    return Scores(*map(torch.from_numpy, (*logits, is_true, eta, exact_mean)))

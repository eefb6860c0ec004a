"""Simulate scores of negatives and positives from a trained encoder, with the BCL paper's stochastic process.

Implements algorithms 1 to 3 of its appendix for all anchors at once. Each anchor has its own base distribution, shifted by a
random amount; each of its negatives is false with the probability of the anchor's class.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from numpy import ndarray
from pydantic import field_validator
from pydantic.dataclasses import dataclass
from torch import Tensor

from trueneg.config.theory_study import Alpha, Slide
from trueneg.randomness import seed_for
from trueneg.specs.settings import Count, Positive, Probability, Seed
from trueneg.theory.distributions import Conditional, Normal, Uniform, base_probability, mixing

HALF_WIDTH = 0.5  # half the width of the uniform base interval, as in the paper
DRAWS_PER_BLOCK = 2**19  # 4 MB per array, so that a block's arrays fit in the CPU cache


@dataclass(frozen=True)
class Setting:
    """Parameters of the process; the defaults are those of the BCL paper's numerical experiments.

    Args:
        alpha: α in [0.5, 1], the probability that a true negative is farther than a false one.
        class_probability: τ⁺ in [0, 1), the probability that a negative is false. Not specified in the paper; 0.1 here.
        slide: the largest shift of an anchor's base interval, in [0, 1]; shifts are uniform in ±slide.
        temperature: t > 0; logits are scores / t. Scores stay within ±1/t²: the interval is clipped to this
            range, and no shift leads outside it (the normal base is unbounded).
        anchors: number of anchors.
        negatives: N, the number of negatives per anchor.
        positives: K, the number of positives per anchor: further samples of its class.
        base: "uniform", U(−0.5, 0.5), or "normal", N(0, 1), before the shift.
        seed: seed of all random draws. Each kind of draw has its own generator, so that different settings share draws where
            possible.
        classes: the probabilities of all classes, which sum to 1: each anchor's class is drawn from them, and its probability
            replaces τ⁺. Empty: all anchors have the same τ⁺.

    Raises:
        ValueError: if a value is out of range.
    """

    alpha: Alpha = 0.9
    class_probability: Probability = 0.1
    slide: Slide = 0.1
    temperature: Positive = 0.5
    anchors: Count = 1000
    negatives: Count = 64
    positives: Count = 10
    base: Literal["uniform", "normal"] = "uniform"
    seed: Seed = 0
    classes: tuple[Probability, ...] = ()

    @field_validator("classes")
    @classmethod
    def _sum_to_one(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if given and not math.isclose(sum(given), 1, rel_tol=1e-6):
            raise ValueError(f"classes have the sum {sum(given):g}, expected probabilities with the sum 1")
        return given

    @property
    def half_width(self) -> float:
        """Half the width of the uniform base's interval, clipped to ±1/t²."""
        return min(HALF_WIDTH, 1 / self.temperature**2)

    @property
    def largest_shift(self) -> float:
        """The slide, limited by the bounds ±1/t²."""
        return self.slide if self.base == "normal" else min(self.slide, 1 / self.temperature**2 - self.half_width)

    def base_at(self, shift: ndarray | float) -> Uniform | Normal:
        """Return the base distribution φ of anchors with the given shifts."""
        return Normal(shift) if self.base == "normal" else Uniform(shift - self.half_width, 2 * self.half_width)


@dataclasses.dataclass(frozen=True)
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
        """(A,) mean of e^u over the drawn true negatives (equation 27); NaN where there are none."""
        return (self.negatives.exp() * self.is_true).sum(-1) / self.is_true.sum(-1)


def simulate_scores(setting: Setting | None = None) -> Scores:
    """Draw the scores of all anchors at once, by inverse transform sampling.

    Args:
        setting: parameters of the process; None: those of the paper.

    Returns:
        Logits of shapes (A, K) and (A, N), with their ground truth.

    Example:
        >>> scores = simulate_scores(Setting(anchors=2, negatives=62))
        >>> scores.negatives.shape, bool((scores.negatives.abs() <= 1.2).all())      # ±0.6 at most, divided by 0.5
        (torch.Size([2, 62]), True)
    """
    setting = setting or Setting()
    return next(simulate_blocks(setting, setting.anchors * (setting.negatives + setting.positives)))


def simulate_blocks(setting: Setting, draws_per_block: int = DRAWS_PER_BLOCK) -> Iterator[Scores]:
    """Yield the same draws in blocks of about `draws_per_block` scores (at least one anchor), to limit memory use."""
    purposes = ("class", "shift", "population", "negatives", "positives")
    generators = {purpose: np.random.default_rng(seed_for(setting.seed, purpose)) for purpose in purposes}
    size = max(1, draws_per_block // (setting.negatives + setting.positives))
    for start in range(0, setting.anchors, size):
        yield _block(setting, min(size, setting.anchors - start), generators)


def _block(setting: Setting, count: int, generators: dict[str, np.random.Generator]) -> Scores:
    eta = _class_probabilities(setting, count, generators["class"])
    base = setting.base_at(setting.largest_shift * generators["shift"].uniform(-1, 1, (count, 1)))
    is_true = generators["population"].random((count, setting.negatives)) >= eta[:, None]
    # The distributions of false and true negatives are mirror images, so one root serves both. Positives are like false ones.
    root = base_probability(generators["negatives"].random(is_true.shape), setting.alpha)
    negatives = base.quantile(np.where(is_true, root, 1 - root))
    positive = base.quantile(1 - base_probability(generators["positives"].random((count, setting.positives)), setting.alpha))
    exact_mean = Conditional(base, mixing(setting.alpha, 0.0)).mean_exponential(setting.temperature)[:, 0]
    logits = (positive / setting.temperature, negatives / setting.temperature)
    return Scores(*map(torch.from_numpy, (*logits, is_true, eta, exact_mean)))


def _class_probabilities(setting: Setting, count: int, generator: np.random.Generator) -> ndarray:
    """Return (A,) τ⁺ of each anchor: the same for all, or the probability of the anchor's randomly drawn class."""
    if not setting.classes:
        return np.full(count, setting.class_probability)
    classes = np.array(setting.classes)
    ends = classes.cumsum()
    chosen = np.searchsorted(ends[:-1], generator.random(count) * ends[-1], side="right")
    return classes[chosen]

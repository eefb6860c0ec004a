"""Scores of negatives and positives as a trained encoder might give them: the BCL paper's stochastic process.

Algorithms 1 to 3 of its appendix, for all anchors at once. Each anchor has a base distribution of its own,
slid by a random amount; each of its negatives is false with the probability of the anchor's class.
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

HALF_WIDTH = 0.5  # of the uniform base interval, as in the paper
DRAWS_PER_BLOCK = 2**19  # 4 MB an array: a block's arrays stay near the processor


@dataclass(frozen=True)
class Setting:
    """What the process needs to know; the defaults are those of the BCL paper's numerical experiments.

    Args:
        alpha: α in [0.5, 1], the probability that a true negative is farther than a false one.
        class_probability: τ⁺ in [0, 1), the probability that a negative is false. The paper does not say: 0.1.
        slide: the largest shift of an anchor's base interval, drawn uniformly from ± this; in [0, 1].
        temperature: t > 0; logits are scores / t. Scores stay within ±1/t²: the interval is cut to it, and no
            shift leads outside of it (the normal base has no bounds).
        anchors: how many.
        negatives: N, of each anchor.
        positives: K, of each anchor: further samples of its class.
        base: "uniform", U(−0.5, 0.5), or "normal", N(0, 1), before the shift.
        seed: of all draws. Each kind of draw has its own generator, so that settings share what they can.
        classes: the probabilities of all classes, which sum to 1: each anchor's class is drawn from them, and its probability
            takes the place of τ⁺. Empty: τ⁺ is that of every anchor.

    Raises:
        ValueError: if a value is out of its range.
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
        """Half the width of the uniform base's interval, cut to ±1/t²."""
        return min(HALF_WIDTH, 1 / self.temperature**2)

    @property
    def largest_shift(self) -> float:
        """The slide, as far as the bounds ±1/t² allow it."""
        return self.slide if self.base == "normal" else min(self.slide, 1 / self.temperature**2 - self.half_width)

    def base_at(self, shift: ndarray | float) -> Uniform | Normal:
        """φ of anchors whose base is shifted."""
        return Normal(shift) if self.base == "normal" else Uniform(shift - self.half_width, 2 * self.half_width)


@dataclasses.dataclass(frozen=True)
class Scores:
    """Logits of A anchors with what they were drawn from; float64.

    Attributes:
        positive: (A, K) logits of samples of the anchor's class.
        negatives: (A, N) logits.
        is_true: (A, N) bool, whether a negative is a true one.
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
        """(A,) mean of e^u over the true negatives that were drawn (equation 27); NaN where there is none."""
        return (self.negatives.exp() * self.is_true).sum(-1) / self.is_true.sum(-1)


def simulate_scores(setting: Setting | None = None) -> Scores:
    """Draw the scores of all anchors at once; each is its distribution's quantile at a uniform number.

    Args:
        setting: the process; None: the paper's.

    Returns:
        Logits, shape (A, K) and (A, N), with what is known of them.

    Example:
        >>> scores = simulate_scores(Setting(anchors=2, negatives=62))
        >>> scores.negatives.shape, bool((scores.negatives.abs() <= 1.2).all())      # ±0.6 at most, divided by 0.5
        (torch.Size([2, 62]), True)
    """
    setting = setting or Setting()
    return next(simulate_blocks(setting, setting.anchors * (setting.negatives + setting.positives)))


def simulate_blocks(setting: Setting, draws_per_block: int = DRAWS_PER_BLOCK) -> Iterator[Scores]:
    """The same draws, about so many scores at a time (at least one anchor's), so that memory does not grow with their number."""
    purposes = ("class", "shift", "population", "negatives", "positives")
    generators = {purpose: np.random.default_rng(seed_for(setting.seed, purpose)) for purpose in purposes}
    size = max(1, draws_per_block // (setting.negatives + setting.positives))
    for start in range(0, setting.anchors, size):
        yield _block(setting, min(size, setting.anchors - start), generators)


def _block(setting: Setting, count: int, generators: dict[str, np.random.Generator]) -> Scores:
    eta = _class_probabilities(setting, count, generators["class"])
    base = setting.base_at(setting.largest_shift * generators["shift"].uniform(-1, 1, (count, 1)))
    is_true = generators["population"].random((count, setting.negatives)) >= eta[:, None]
    # A false negative's distribution mirrors a true one's: one root serves both. Positives are as false negatives.
    root = base_probability(generators["negatives"].random(is_true.shape), setting.alpha)
    negatives = base.quantile(np.where(is_true, root, 1 - root))
    positive = base.quantile(1 - base_probability(generators["positives"].random((count, setting.positives)), setting.alpha))
    exact_mean = Conditional(base, mixing(setting.alpha, 0.0)).mean_exponential(setting.temperature)[:, 0]
    logits = (positive / setting.temperature, negatives / setting.temperature)
    return Scores(*map(torch.from_numpy, (*logits, is_true, eta, exact_mean)))


def _class_probabilities(setting: Setting, count: int, generator: np.random.Generator) -> ndarray:
    """(A,) τ⁺ of each anchor: one for all, or that of a class drawn in proportion to it."""
    if not setting.classes:
        return np.full(count, setting.class_probability)
    classes = np.array(setting.classes)
    ends = classes.cumsum()
    chosen = np.searchsorted(ends[:-1], generator.random(count) * ends[-1], side="right")
    return classes[chosen]

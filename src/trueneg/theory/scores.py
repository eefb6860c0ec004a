"""Scores of negatives and positives as a trained encoder might give them: the BCL paper's stochastic process.

Algorithms 1 to 3 of its appendix, for all anchors at once. Each anchor has a base distribution of its own,
slid by a random amount; each of its negatives is false with the probability of the anchor's class.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from trueneg.randomness import seed_for
from trueneg.theory.distributions import Base, Conditional, Normal, Uniform, base_probability, mixing

BASES = ("uniform", "normal")
METHODS = ("inverse", "rejection")
HALF_WIDTH = 0.5  # of the uniform base interval, as in the paper
DRAWS_PER_BLOCK = 2**19  # 4 MB an array: a block's arrays stay near the processor


@dataclass(frozen=True)
class Setting:
    """What the process needs to know; the defaults are those of the BCL paper's numerical experiments.

    Args:
        alpha: α in [0.5, 1], the probability that a true negative is farther than a false one.
        class_probability: τ⁺ in [0, 1), the probability that a negative is false; or the probabilities of all
            classes, which sum to 1: each anchor's class is then drawn from them. The paper does not say: 0.1.
        slide: the largest shift of an anchor's base interval, drawn uniformly from ± this; in [0, 1].
        temperature: t > 0; logits are scores / t. Scores stay within ±1/t²: the interval is cut to it, and no
            shift leads outside of it (the normal base has no bounds).
        anchors: how many.
        negatives: N, of each anchor.
        positives: K, of each anchor: further samples of its class.
        base: "uniform", U(−0.5, 0.5), or "normal", N(0, 1), before the shift.
        seed: of all draws. Each kind of draw has its own generator, so that settings share what they can.

    Raises:
        ValueError: if a value is out of its range.
    """

    alpha: float = 0.9
    class_probability: float | tuple[float, ...] = 0.1
    slide: float = 0.1
    temperature: float = 0.5
    anchors: int = 1000
    negatives: int = 64
    positives: int = 10
    base: str = "uniform"
    seed: int = 0

    def __post_init__(self):
        if not 0.5 <= self.alpha <= 1:
            raise ValueError(f"alpha is {self.alpha}, expected a number from 0.5 to 1.")
        if not np.isscalar(self.class_probability):
            object.__setattr__(self, "class_probability", tuple(map(float, self.class_probability)))
        classes = np.atleast_1d(self.class_probability)
        if not ((classes >= 0) & (classes < 1)).all():
            raise ValueError(f"class_probability is {self.class_probability}, expected at least 0 and below 1.")
        if classes.size > 1 and not math.isclose(classes.sum(), 1, rel_tol=1e-6):
            raise ValueError(
                f"class_probability names {classes.size} classes whose probabilities sum to {classes.sum():g}, expected 1."
            )
        if not 0 <= self.slide <= 1:
            raise ValueError(f"slide is {self.slide}, expected a number from 0 to 1.")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature is {self.temperature}, expected a finite number above 0.")
        for name in ("anchors", "negatives", "positives"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1.")
        if self.base not in BASES:
            raise ValueError(f"base is {self.base!r}, expected one of {', '.join(BASES)}.")

    @property
    def half_width(self) -> float:
        """Half the width of the uniform base's interval, cut to ±1/t²."""
        return min(HALF_WIDTH, 1 / self.temperature**2)

    @property
    def largest_shift(self) -> float:
        """The slide, as far as the bounds ±1/t² allow it."""
        return self.slide if self.base == "normal" else min(self.slide, 1 / self.temperature**2 - self.half_width)

    def base_at(self, shift: ndarray | float) -> Base:
        """φ of anchors whose base is shifted."""
        return Normal(shift) if self.base == "normal" else Uniform(shift - self.half_width, 2 * self.half_width)


@dataclass(frozen=True)
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


def simulate_scores(setting: Setting | None = None, *, method: str = "inverse") -> Scores:
    """Draw the scores of all anchors at once.

    Args:
        setting: the process; None: the paper's.
        method: "inverse": each score is its distribution's quantile at a uniform number; "rejection": the
            paper's algorithms 2 and 3. The two agree in distribution, not in their draws.

    Raises:
        ValueError: if there is no such method.

    Example:
        >>> scores = simulate_scores(Setting(anchors=2, negatives=62))
        >>> scores.negatives.shape, bool((scores.negatives.abs() <= 1.2).all())      # ±0.6 at most, divided by 0.5
        (torch.Size([2, 62]), True)
    """
    setting = setting or Setting()
    return next(
        simulate_blocks(setting, method=method, draws_per_block=setting.anchors * (setting.negatives + setting.positives))
    )


def simulate_blocks(setting: Setting, *, method: str = "inverse", draws_per_block: int = DRAWS_PER_BLOCK) -> Iterator[Scores]:
    """The same draws, a block of anchors at a time, so that memory does not grow with their number.

    Args:
        setting: the process.
        method: as for :func:`simulate_scores`.
        draws_per_block: about how many scores a block holds, at least one anchor's. With "inverse" the draws are
            the same for every block size, with "rejection" they are others.

    Raises:
        ValueError: if there is no such method.
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}, expected one of {', '.join(METHODS)}.")
    generators = {
        purpose: np.random.default_rng(seed_for(setting.seed, purpose))
        for purpose in ("class", "shift", "population", "negatives", "positives")
    }
    size = max(1, draws_per_block // (setting.negatives + setting.positives))
    for start in range(0, setting.anchors, size):
        yield _block(replace(setting, anchors=min(size, setting.anchors - start)), generators, method)


def _block(setting: Setting, generators: dict[str, np.random.Generator], method: str) -> Scores:
    count, alpha = setting.anchors, setting.alpha
    eta = _class_probabilities(setting, generators["class"])
    shift = setting.largest_shift * generators["shift"].uniform(-1, 1, (count, 1))
    base = setting.base_at(shift)
    is_true = generators["population"].random((count, setting.negatives)) >= eta[:, None]
    draw = _by_quantiles if method == "inverse" else _by_rejection
    negatives = draw(base, is_true, alpha, generators["negatives"])
    positive = draw(base, np.zeros((count, setting.positives), dtype=bool), alpha, generators["positives"])
    exact_mean = Conditional(base, mixing(alpha, 0.0)).mean_exponential(setting.temperature)[:, 0]
    return Scores(
        torch.from_numpy(positive / setting.temperature),
        torch.from_numpy(negatives / setting.temperature),
        torch.from_numpy(is_true),
        torch.from_numpy(eta),
        torch.from_numpy(exact_mean),
    )


def _class_probabilities(setting: Setting, generator: np.random.Generator) -> ndarray:
    """(A,) τ⁺ of each anchor: one for all, or that of a class drawn in proportion to it."""
    if not isinstance(setting.class_probability, tuple):
        return np.full(setting.anchors, float(setting.class_probability))
    classes = np.array(setting.class_probability)
    ends = classes.cumsum()
    chosen = np.searchsorted(ends[:-1], generator.random(setting.anchors) * ends[-1], side="right")
    return classes[chosen]


def _by_quantiles(base: Base, is_true: ndarray, alpha: float, generator: np.random.Generator) -> ndarray:
    # A false negative's distribution mirrors a true one's: one root serves both.
    root = base_probability(generator.random(is_true.shape), alpha)
    return base.quantile(np.where(is_true, root, 1 - root))


def _by_rejection(base: Base, is_true: ndarray, alpha: float, generator: np.random.Generator) -> ndarray:
    scores = np.empty(is_true.shape)
    anchor, column = np.nonzero(np.ones_like(is_true))
    while anchor.size:
        of_anchor = base.rows(anchor)
        proposed = of_anchor.draw(generator, (anchor.size, 1))
        below = of_anchor.distribution(proposed)[:, 0]
        share = np.where(is_true[anchor, column], alpha, 1 - alpha)
        accepted = generator.random(anchor.size) * alpha <= share + (1 - 2 * share) * below
        scores[anchor[accepted], column[accepted]] = proposed[accepted, 0]
        anchor, column = anchor[~accepted], column[~accepted]
    return scores

"""Estimators that are told which negatives are false, or how likely: by labels or by known similarity."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trueneg.losses.estimators import Estimator
from trueneg.losses.mass import NegativeMass, unbounded


@dataclass
class Removed(Estimator):
    r"""Negatives that are too similar to the positive are left out.

    .. math:: N g = \sum_{n:\, s_n \le \theta} e^{u_n}

    N counts what is left. For labels, a similarity of 1 where two samples share one and 0 elsewhere, and any
    threshold in [0, 1). An anchor with nothing left has no mass: its loss is 0, its gradient zero.

    Args:
        threshold: θ, the largest similarity that stays.

    Raises:
        ValueError: if the threshold is not a finite number.

    Example:
        >>> similarity = torch.tensor([[0.9, 0.1, -0.2]])
        >>> Removed(0.5)(torch.zeros(1), torch.zeros(1, 3), similarity=similarity).exp().round().tolist()
        [2.0]
    """

    needs_similarity: ClassVar[bool] = True
    threshold: float = 0.5

    def __post_init__(self):
        if not math.isfinite(self.threshold):
            raise ValueError(f"threshold is {self.threshold}, expected a finite number.")

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        similarity = _known(self, similarity, "similarity", negatives)
        return unbounded(masked_logsumexp(negatives, similarity > self.threshold))


@dataclass
class Reweighted(Estimator):
    r"""The more similar a negative is to the positive, the less it weighs.

    .. math:: N g = \sum_n w_n e^{u_n},\qquad w_n \propto (1 - \max(0, s_n))^{k},\quad \overline{w} = 1

    An anchor whose negatives all weigh nothing has no mass: its loss is 0, its gradient zero.

    Args:
        exponent: k > 0; 1: linear in the similarity.

    Raises:
        ValueError: if the exponent is not a positive number.

    Example:
        >>> similarity = torch.tensor([[1.0, 0.5, 0.0]])     # weights 0, 1 and 2
        >>> negatives = torch.tensor([[9.0, 5.0, 1.0]]).log()
        >>> Reweighted()(torch.zeros(1), negatives, similarity=similarity).exp().round().tolist()
        [7.0]
    """

    needs_similarity: ClassVar[bool] = True
    exponent: float = 1.0

    def __post_init__(self):
        if not 0 < self.exponent < math.inf:
            raise ValueError(f"exponent is {self.exponent}, expected a positive number.")

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        weight = dissimilarity(_known(self, similarity, "similarity", negatives), negatives) ** self.exponent
        weightless = weight == 0
        log_weight = weight.masked_fill(weightless, 1).log()
        total = weight.sum(-1)
        log_mean = torch.where(total > 0, total, 1).log() - math.log(negatives.shape[-1])
        return unbounded(masked_logsumexp(negatives + log_weight, weightless) - log_mean)


@dataclass
class Resampled(Estimator):
    r"""Negatives are replaced by a draw that favours those unlike the positive.

    .. math:: N g = \sum_{k=1}^{K} e^{u_{n_k}},\qquad P(n_k = n) \propto 1 - \max(0, s_n)

    drawn with replacement from torch's default generator, anew at each call; N counts the draw. An anchor
    whose negatives all equal its positive has no mass: its loss is 0, its gradient zero.

    Args:
        size: K, how many are drawn for each anchor.

    Raises:
        ValueError: if the size is not a positive integer.

    Example:
        >>> similarity = torch.tensor([[1.0, 1.0, 0.0]])     # only the last can be drawn
        >>> negatives = torch.tensor([[9.0, 9.0, 2.0]]).log()
        >>> Resampled(4)(torch.zeros(1), negatives, similarity=similarity).exp().round().tolist()
        [8.0]
    """

    needs_similarity: ClassVar[bool] = True
    size: int = 32

    def __post_init__(self):
        if not (isinstance(self.size, int) and self.size > 0):
            raise ValueError(f"size is {self.size}, expected a positive integer.")

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        weight = dissimilarity(_known(self, similarity, "similarity", negatives), negatives)
        none_left = (weight == 0).all(-1)
        drawn = torch.multinomial(weight.masked_fill(none_left[:, None], 1), self.size, replacement=True)
        log_sum = negatives.gather(-1, drawn).logsumexp(-1)
        return unbounded(log_sum.masked_fill(none_left, -math.inf))


@dataclass
class Oracle(Estimator):
    r"""The mass over the negatives that are known to be true: what could be gained, never a method.

    .. math:: N g = \sum_{n \in \mathrm{TN}} e^{u_n}

    An anchor without a true negative has no mass: its loss is 0, its gradient zero.

    Example:
        >>> same_class = torch.tensor([[True, False, False]])
        >>> Oracle()(torch.zeros(1), torch.zeros(1, 3), same_class=same_class).exp().round().tolist()
        [2.0]
    """

    needs_labels: ClassVar[bool] = True

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        return unbounded(masked_logsumexp(negatives, _known(self, same_class, "same_class", negatives)))


def masked_logsumexp(values: Tensor, left_out: Tensor) -> Tensor:
    """log Σ e^values without the entries left out; −∞ with zero gradient where none is left.

    Args:
        values: (A, N).
        left_out: (A, N) bool.

    Returns:
        (A,).
    """
    return values.masked_fill(left_out, -math.inf).logsumexp(-1)


def dissimilarity(similarity: Tensor, negatives: Tensor) -> Tensor:
    """1 − max(0, s), at least 0 where rounding makes a similarity exceed 1; in the negatives' type."""
    return 1 - similarity.to(negatives.dtype).clamp(0, 1)


def _known(estimator: Estimator, given: Tensor | None, name: str, negatives: Tensor) -> Tensor:
    if given is None or given.shape != negatives.shape:
        found = "nothing" if given is None else f"the shape {tuple(given.shape)}"
        raise ValueError(
            f"{type(estimator).__name__} needs {name} of the negatives' shape {tuple(negatives.shape)}, found {found}."
        )
    return given.detach()

"""What every estimator of the true-negative mass N·g has in common.

For an anchor, ``positive`` holds the logits (scaled similarities) with its positives, ``negatives`` those with the N samples
drawn from the data. Everything stays in log space, so that a logit scale of 100 is finite in float32.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor


class NegativeMass(NamedTuple):
    """What an estimator says about each anchor.

    Attributes:
        log: (A,) log(N·g).
        at_bound: (A,) bool: the lower bound took the estimate's place, so the negatives get no gradient.
    """

    log: Tensor
    at_bound: Tensor


def unbounded(log_mass: Tensor) -> NegativeMass:
    """The mass of an estimator that has no bound."""
    return NegativeMass(log_mass, torch.zeros_like(log_mass, dtype=torch.bool))


class Estimator:
    """The true-negative mass of each anchor; subclasses say how, in :meth:`mass`.

    Attributes:
        name: what a configuration and :func:`trueneg.losses.build` call it.
        needs_labels: whether ``same_class`` must be given.
        needs_similarity: whether ``similarity`` must be given.
    """

    name: ClassVar[str]
    needs_labels: ClassVar[bool] = False
    needs_similarity: ClassVar[bool] = False

    def __call__(
        self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None, valid=None
    ) -> Tensor:
        """The log of the true-negative mass, shape (A,); arguments as for :meth:`mass`, and one more.

        Args:
            valid: (A, N) bool, which columns are an anchor's negatives, whatever the others hold; None: all.
        """
        if valid is not None:
            negatives = negatives.masked_fill(~valid, -math.inf)
        count = None if valid is None else valid.sum(-1)
        known = {"same_class": same_class, "similarity": similarity, "count": count}
        return self.mass(positive, negatives, class_probability, floor, **known).log

    def mass(
        self,
        positive: Tensor,
        negatives: Tensor,
        class_probability: float | Tensor | None = None,
        floor: float | Tensor | None = None,
        *,
        same_class: Tensor | None = None,
        similarity: Tensor | None = None,
        count: int | Tensor | None = None,
    ) -> NegativeMass:
        """The log of the true-negative mass, and where it is a bound. Subclasses ignore what they do not name.

        Args:
            positive: (A,) or (A, M) logits; the first column is the anchor's own positive, the others are
                further draws from its class.
            negatives: (A, N) logits; −∞ in columns that are none of the anchor's negatives, with a ``count``.
            class_probability: η, a number or one per anchor, shape (A,); overrides the estimator's own.
            floor: the log of the lower bound of g, a number or a tensor that broadcasts to (A,); None: no bound.
            same_class: (A, N) bool, whether a negative shares the anchor's class, where ``needs_labels``.
            similarity: (A, N), how alike a negative and the anchor's positive are known to be, where
                ``needs_similarity``.
            count: N, one for all or one per anchor, shape (A,); None: the number of columns.
        """
        raise NotImplementedError

    def mean(self, positive: Tensor, negatives: Tensor, class_probability=None, **known: Tensor) -> Tensor:
        """g itself, without a bound, shape (A,): the estimated mean of e^u over the true negatives.

        Not in log space: where a bracket is negative, and its log NaN, this is a number below 0. Arguments as for
        :meth:`mass`.
        """
        return (self.mass(positive, negatives, class_probability, **known).log - math.log(negatives.shape[-1])).exp()


def log_sum_exp(logits: Tensor) -> Tensor:
    """``logits.logsumexp(-1)`` with fewer passes over the logits, in 60 % of the time on a CPU; each row needs a finite one."""
    largest = logits.detach().amax(-1, keepdim=True)
    return (logits - largest).exp_().sum(-1).log() + largest[:, 0]


def log_count(negatives: Tensor, count: int | Tensor | None) -> Tensor:
    """log N of each anchor, shape (A,), from the count or, where there is none, from the number of columns."""
    if isinstance(count, Tensor):
        return count.to(negatives.dtype).log()
    return negatives.new_full(negatives.shape[:1], math.log(count or negatives.shape[-1]))


def checked_class_probability(value: float | Tensor | None) -> float | Tensor | None:
    """η itself, if every value lies in [0, 1).

    Raises:
        ValueError: if one does not. On an accelerator the value becomes NaN instead.
    """
    if value is None:
        return None
    if not isinstance(value, Tensor):
        value = float(value)
        if not 0 <= value < 1:  # NaN fails too
            raise ValueError(f"class_probability is {value:g}, expected a number of at least 0 and below 1.")
        return value
    valid = (value >= 0) & (value < 1)
    if value.device.type != "cpu":
        return torch.where(valid, value, math.nan)
    if not valid.all():
        wrong = value[~valid]
        raise ValueError(
            f"class_probability holds {wrong.numel()} of {value.numel()} values outside [0, 1), the first is "
            f"{wrong.flatten()[0]:g}; expected probabilities of at least 0 and below 1."
        )
    return value


def given_class_probability(given: float | Tensor | None, own: float | Tensor | None, negatives: Tensor) -> float | Tensor:
    """The η of a call: the one given, else the estimator's own; a float, or a tensor that broadcasts to (A,).

    Args:
        given: to the call; None: nothing.
        own: the estimator's; None: it has none.
        negatives: (A, N) logits, whose type and device the η gets.

    Raises:
        ValueError: if there is none, it lies outside [0, 1), or it does not have one value per anchor.
    """
    eta = own if given is None else checked_class_probability(given)
    if eta is None:
        raise ValueError("class_probability is missing: give it to the estimator, or to each call.")
    if not isinstance(eta, Tensor):
        return eta
    if eta.dim() > 0:
        checked_shape("class_probability", eta, negatives.shape[:1])
    return eta.to(dtype=negatives.dtype, device=negatives.device)


def checked_shape(name: str, given: Tensor | None, shape: Sequence[int]) -> Tensor:
    """A tensor that must be given with this shape.

    Raises:
        ValueError: if it is missing, or has another shape.
    """
    if given is None:
        raise ValueError(f"{name} is missing, which the estimator needs; expected a tensor of shape {tuple(shape)}.")
    if given.shape != torch.Size(shape):
        raise ValueError(f"{name} has the shape {tuple(given.shape)}, expected {tuple(shape)}.")
    return given

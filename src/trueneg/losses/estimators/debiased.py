"""DCL: subtract the expected share of false negatives."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trueneg.losses.base import (
    Estimator,
    NegativeMass,
    checked_class_probability,
    class_probability_of,
    log_count,
    log_sum_exp,
    unbounded,
)


class Subtracting(Estimator):
    """Subtract the expected mass of false negatives from a sum over all negatives; subclasses may
    weight the sum.
    """

    class_probability: float | Tensor | None

    def log_sum(self, negatives: Tensor, log_n: Tensor) -> Tensor:
        """Return the log of the sum of e^u over the negatives, shape (A,)."""
        return log_sum_exp(negatives)

    def mass(
        self,
        positive,
        negatives,
        *,
        class_probability=None,
        temperature=None,
        count=None,
        **_,
    ) -> NegativeMass:
        eta = class_probability_of(class_probability, self.class_probability, negatives)
        log_n = log_count(negatives, count)
        log_sum = self.log_sum(negatives, log_n)
        # The clamp avoids 0 · ∞
        log_ratio = (log_n + _log_mean_exp(positive) - log_sum).clamp(max=80)
        # The estimate as a share of the sum; negative if too much is subtracted
        share = (1 - eta * log_ratio.exp()) / (1 - eta)
        if temperature is None:
            return unbounded(log_sum + share.log())
        bound = log_n - 1 / temperature
        at_bound = (share <= (bound - log_sum).exp()) & (eta > 0)
        # log 0 would give NaN gradients even where unused
        estimate = log_sum + share.masked_fill(at_bound, 1).log()
        return NegativeMass(torch.where(at_bound, bound, estimate), at_bound)

    def mean(self, positive, negatives, *, class_probability=None, **_) -> Tensor:
        eta = class_probability_of(class_probability, self.class_probability, negatives)
        log_n = log_count(negatives, None)
        mean = (self.log_sum(negatives, log_n) - log_n).exp()
        return (mean - eta * positive.reshape(len(positive), -1).exp().mean(-1)) / (1 - eta)


@dataclass
class Debiased(Subtracting):
    r"""Subtract the expected share of false negatives: DCL.

    .. math::

        N g = \max\Bigl(\frac{\sum_n e^{u_n} - N \eta\, \overline{e^{p}}}{1-\eta},\; N e^{b}\Bigr)

    with b = −1/t at temperature t, and the mean of e^p over the M positives. Chuang et al. (2020)
    for one η; Sample-Specific Debiasing (2023), equations 6 to 8, for one η per anchor. Without a
    temperature, there is no bound, and the log mass is NaN where the estimate is negative. At η =
    0 this is :class:`Uncorrected`.

    Args:
        class_probability: η in [0, 1), the probability that a random sample shares the anchor's
            class: a single number, or a tensor with one value per anchor, shape (A,). None: each
            call passes its own.

    Raises:
        ValueError: if a class probability is negative, not below 1 or not finite. Tensors on an
            accelerator are not checked, because that would synchronize the device; there an invalid
            η makes the mass NaN.

    Example:
        >>> import torch
        >>> estimator = Debiased(0.1)
        >>> log_mass = estimator(positive=torch.zeros(2), negatives=torch.zeros(2, 62))
        >>> round(log_mass.exp().tolist()[0], 3)  # all logits are equal: the mass is the count
        62.0
    """

    name: ClassVar[str] = "dcl"
    class_probability: float | Tensor | None = None

    def __post_init__(self):
        self.class_probability = checked_class_probability(self.class_probability)


def _log_mean_exp(positive: Tensor) -> Tensor:
    """Return the log of the mean of e^p over (A,) or (A, M) logits, shape (A,)."""
    if positive.dim() == 1:
        return positive
    return positive.logsumexp(-1) - math.log(positive.shape[-1])

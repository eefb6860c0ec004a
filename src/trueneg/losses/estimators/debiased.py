"""DCL: the expected share of false negatives is subtracted."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trueneg.losses.base import (
    Estimator,
    NegativeMass,
    checked_class_probability,
    given_class_probability,
    log_count,
    log_sum_exp,
    unbounded,
)


class Subtracting(Estimator):
    """The expected mass of the false negatives is subtracted from a sum over all negatives, which a subclass may weight."""

    class_probability: float | Tensor | None
    smooth_bound: bool

    def log_sum(self, negatives: Tensor, log_n: Tensor) -> Tensor:
        """Log of the sum of e^u over the negatives, shape (A,)."""
        return log_sum_exp(negatives)

    def mass(self, positive, negatives, class_probability=None, floor=None, *, count=None, **_) -> NegativeMass:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        log_n = log_count(negatives, count)
        log_sum = self.log_sum(negatives, log_n)
        log_positive = positive if positive.dim() == 1 else positive.logsumexp(-1) - math.log(positive.shape[-1])
        # What the subtraction leaves of the sum, below 0 where it takes too much. The clamp keeps 0 times infinity out.
        share = (1 - eta * (log_n + log_positive - log_sum).clamp(max=80).exp()) / (1 - eta)
        if floor is None or (isinstance(eta, float) and eta == 0):
            return unbounded(log_sum + share.log())
        bound = floor + log_n
        least = (bound - log_sum).exp()  # a share of the sum too
        at_bound = (share <= (0 if self.smooth_bound else least)) & (eta > 0)
        share = share + least if self.smooth_bound else share
        estimate = log_sum + share.masked_fill(at_bound, 1).log()  # the gradient of log 0 is NaN, even where it is not used
        return NegativeMass(torch.where(at_bound, bound, estimate), at_bound)

    def mean(self, positive, negatives, class_probability=None, **known: Tensor) -> Tensor:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        log_n = log_count(negatives, None)
        mean = (self.log_sum(negatives, log_n) - log_n).exp()
        return (mean - eta * positive.reshape(len(positive), -1).exp().mean(-1)) / (1 - eta)


@dataclass
class Debiased(Subtracting):
    r"""The expected share of false negatives is subtracted: DCL.

    .. math:: N g = \max\Bigl(\frac{\sum_n e^{u_n} - N \eta\, \overline{e^{p}}}{1-\eta},\; N e^{b}\Bigr)

    with b = ``floor`` and the mean of e^p over the M positives. Chuang et al. (2020) for one η;
    Sample-Specific Debiasing (2023), equations 6 to 8, for one per anchor. Without a floor the log of a
    negative bracket is NaN. At η = 0 this is :class:`Uncorrected`.

    Args:
        class_probability: η in [0, 1), the probability that a random sample shares the anchor's class: a
            number, or a tensor of one per anchor, shape (A,). None: each call brings its own.
        smooth_bound: experimental: the log-sum-exp of estimate and bound in place of their maximum, so that
            an anchor's negatives keep a gradient as long as the bracket is positive.

    Raises:
        ValueError: if a class probability is negative, not below 1 or not finite. The values of a tensor on
            an accelerator are not looked at, since that would wait for the device: there a wrong η makes
            the mass NaN.

    Example:
        >>> import torch
        >>> estimator = Debiased(0.1)
        >>> log_mass = estimator(positive=torch.zeros(2), negatives=torch.zeros(2, 62))
        >>> round(log_mass.exp().tolist()[0], 3)       # nothing to tell apart: the mass is the count
        62.0
    """

    name: ClassVar[str] = "dcl"
    class_probability: float | Tensor | None = None
    smooth_bound: bool = False

    def __post_init__(self):
        self.class_probability = checked_class_probability(self.class_probability)

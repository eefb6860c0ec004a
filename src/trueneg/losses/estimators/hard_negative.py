"""HCL: as DCL, with more weight on near negatives."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trueneg.losses.base import (
    Estimator,
    NegativeMass,
    checked_class_probability,
    debiased_mean,
    given_class_probability,
    log_count,
    log_sum_exp,
    unbounded,
)


@dataclass
class HardNegative(Estimator):
    r"""As :class:`Debiased`, but near negatives weigh more: HCL.

    .. math:: \sum_n e^{u_n} \;\text{becomes}\; \sum_n w_n e^{u_n},\qquad w_n = e^{\beta u_n} / \overline{e^{\beta u}}

    Robinson et al. (2021). The weights are normalised by their mean over the anchor's negatives, and
    gradients flow through them, as in the public code. At β = 0 this is :class:`Debiased`.

    Args:
        beta: β ≥ 0, the concentration on near negatives.
        class_probability: η, as for :class:`Debiased`; 0 for hardness without debiasing.
        smooth_bound: as for :class:`Debiased`.

    Raises:
        ValueError: if β is negative or not finite, or η is outside [0, 1).

    Example:
        >>> import torch
        >>> negatives = torch.tensor([[0.0, 2.0]]).log()           # e^u = 0 and 2: the far one has no weight
        >>> HardNegative(beta=1.0, class_probability=0.0)(torch.zeros(1), negatives).exp().tolist()
        [4.0]
    """

    name: ClassVar[str] = "hcl"
    beta: float = 1.0
    class_probability: float | Tensor | None = None
    smooth_bound: bool = False

    def __post_init__(self):
        if not 0 <= self.beta < math.inf:
            raise ValueError(f"beta is {self.beta}, expected a finite number of at least 0.")
        self.class_probability = checked_class_probability(self.class_probability)

    def mass(self, positive, negatives, class_probability=None, floor=None, *, valid=None, **_) -> NegativeMass:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        log_n, largest = log_count(negatives, valid), negatives.detach().amax(-1, keepdim=True)
        weight = (self.beta * negatives).softmax(-1)  # w / N; at β = 0 not used, where a column of −∞ makes it NaN
        log_mean = torch.linalg.vecdot(weight, (negatives - largest).exp_()).log() + largest[:, 0]
        log_sum = log_n + log_mean if self.beta > 0 else log_sum_exp(negatives)
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
        weight = (self.beta * negatives).softmax(-1)
        return debiased_mean((weight * negatives.exp()).sum(-1), positive, eta)

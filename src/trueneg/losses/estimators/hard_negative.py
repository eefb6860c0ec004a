"""HCL: as DCL, with more weight on near negatives."""

import math
from dataclasses import dataclass

from torch import Tensor

from trueneg.losses.base import Estimator, NegativeMass, checked_class_probability, given_class_probability
from trueneg.losses.mass import debias, debiased_mean
from trueneg.losses.sums import log_weighted_sum


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

    beta: float = 1.0
    class_probability: float | Tensor | None = None
    smooth_bound: bool = False

    def __post_init__(self):
        if not 0 <= self.beta < math.inf:
            raise ValueError(f"beta is {self.beta}, expected a finite number of at least 0.")
        self.class_probability = checked_class_probability(self.class_probability)

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        return debias(log_weighted_sum(negatives, self.beta), positive, negatives.shape[-1], eta, floor, self.smooth_bound)

    def mean(self, positive, negatives, class_probability=None, **known: Tensor) -> Tensor:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        return debiased_mean(log_weighted_sum(negatives, self.beta), positive, negatives.shape[-1], eta)

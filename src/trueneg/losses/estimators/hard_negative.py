"""HCL: DCL with more weight on near negatives."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.losses.anchors import Anchors
from trueneg.losses.estimators.debiased import Subtracting
from trueneg.losses.log_space import log_sum_exp


@dataclass(repr=False)
class HardNegative(Subtracting):
    r"""Extend :class:`Debiased` with larger weights for near negatives: HCL.

    .. math::

        \sum_n e^{u_n} \;\text{becomes}\; \sum_n w_n e^{u_n},\qquad w_n =
        e^{\beta u_n} / \overline{e^{\beta u}}

    Robinson et al. (2021). The weights are normalised by their mean over the anchor's negatives,
    and gradients flow through them, as in the public code. At β = 0 this is :class:`Debiased`.

    Args:
        beta: β ≥ 0, the concentration on near negatives.
        class_probability: η, see :class:`Debiased`; 0 for hardness without debiasing.

    Raises:
        ValueError: if β is negative or not finite, or η is outside [0, 1).

    Example:
        >>> import torch
        >>> negatives = torch.tensor([[0.0, 2.0]]).log()  # e^u = 0 and 2: the far one has no weight
        >>> HardNegative(beta=1.0, class_probability=0.0)(torch.zeros(1), negatives).exp().tolist()
        [4.0]
    """

    name = "hcl"
    beta: float = 1.0
    class_probability: float | Tensor | None = None

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.beta < math.inf:
            raise ValueError(f"beta is {self.beta}; expected a finite number of at least 0.")

    def log_sum(self, anchors: Anchors) -> Tensor:
        """Return the log of the weighted sum, shape (A,)."""
        negatives = anchors.negatives
        if self.beta == 0:
            return log_sum_exp(negatives)
        largest = negatives.detach().amax(-1, keepdim=True)
        mass = (negatives - largest).exp_()
        weight = mass if self.beta == 1 else (self.beta * (negatives - largest)).exp_()
        log_mean = (torch.linalg.vecdot(weight, mass) / weight.sum(-1)).log() + largest[:, 0]
        return anchors.log_count + log_mean

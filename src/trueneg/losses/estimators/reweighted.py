"""Reduce the weight of negatives that are similar to the positive."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.losses.anchors import Anchors, NegativeMass, unbounded
from trueneg.losses.base import Estimator


@dataclass(repr=False)
class Reweighted(Estimator):
    r"""Reduce the weight of negatives that are similar to the positive.

    .. math::

        N g = \sum_n w_n e^{u_n},\qquad w_n \propto (1 - \max(0, s_n))^{k},\quad \overline{w} = 1

    If all negatives of an anchor have weight 0, its mass is zero, and its loss and gradient are 0.

    Args:
        exponent: k ≥ 0; with 1 the weight is linear in the similarity, with 0 all negatives have
            weight 1.

    Raises:
        ValueError: if the exponent is negative or not finite.

    Example:
        >>> similarity = torch.tensor([[1.0, 0.5, 0.0]])  # weights 0, 1 and 2
        >>> negatives = torch.tensor([[9.0, 5.0, 1.0]]).log()
        >>> Reweighted()(torch.zeros(1), negatives, similarity=similarity).exp().round().tolist()
        [7.0]
    """

    name = "reweight"
    needs_similarity = True
    exponent: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.exponent < math.inf:
            raise ValueError(f"exponent is {self.exponent}; expected a number of at least 0.")

    def weight(self, similarity: Tensor) -> Tensor:
        """Return (1 − max(0, s))^k, the weights before they are scaled to mean 1, in the shape of
        `similarity`.
        """
        return (1 - similarity.clamp(0, 1)) ** self.exponent  # rounding can make a cosine exceed 1

    def mass(self, anchors: Anchors) -> NegativeMass:
        negatives = anchors.negatives
        similarity = anchors.required("similarity").to(negatives.dtype)
        weight = self.weight(similarity).masked_fill(~anchors.is_negative, 0)
        share = weight / weight.sum(-1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny)
        # gradient 0 instead of NaN
        weighted = (negatives + share.log()).masked_fill(share == 0, -math.inf)
        return unbounded(weighted.logsumexp(-1) + anchors.log_count, 1 - weight)

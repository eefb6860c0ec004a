"""Remove the share of an anchor's negatives that are most similar to it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.losses.anchors import Anchors
from trueneg.losses.base import Selecting
from trueneg.losses.log_space import next_largest

ROUNDING = 1e-9  # 0.1 · 30 is a little more than 3


@dataclass(repr=False)
class Quantile(Selecting):
    r"""Remove the share of an anchor's negatives with the largest logits.

    .. math::

        N g = \sum_{n:\, u_n \le u_{(k+1)}} e^{u_n},\qquad k = \lceil \mathrm{share} \cdot N \rceil

    with :math:`u_{(k+1)}` the (k+1)-th largest logit of the batch: the control ``fnd`` of GloFND
    (Balmaseda et al., 2025), which learns this threshold for each training sample. Exactly k
    negatives are removed unless logits are equal. An anchor with none left has zero mass, so its
    loss and gradient are 0. The authors' code of SimCLR's loss multiplies the sum by N over the
    number of negatives kept; this class does not.

    Args:
        share: share to remove, in [0, 1).

    Raises:
        ValueError: if the share is outside [0, 1).

    Example:
        >>> negatives = torch.tensor([[4.0, 3.0, 2.0, 1.0]]).log()
        >>> Quantile(0.5)(torch.zeros(1), negatives).exp().round().tolist()
        [3.0]
    """

    name = "quantile"
    share: float

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.share < 1:
            raise ValueError(f"share is {self.share}; expected a number of at least 0 and below 1.")

    def marked(self, anchors: Anchors) -> Tensor:
        negatives = anchors.negatives.detach()
        count = anchors.count
        if isinstance(count, Tensor):  # looked up, because some devices have no float64
            counts = torch.arange(negatives.shape[-1] + 1, dtype=torch.float64)
            ranks = (self.share * counts - ROUNDING).ceil().clamp(min=0).to(torch.int64)
            return negatives > next_largest(negatives, ranks.to(count.device)[count])
        rank = math.ceil(self.share * (count or negatives.shape[-1]) - ROUNDING)
        return negatives > next_largest(negatives, max(rank, 0))

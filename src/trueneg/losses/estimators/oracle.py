"""The mass over the negatives that are known to be true."""

import math
from dataclasses import dataclass
from typing import ClassVar

from trueneg.losses.base import Estimator, NegativeMass, checked_shape, unbounded


@dataclass
class Oracle(Estimator):
    r"""The mass over the negatives that are known to be true: what could be gained, never a method.

    .. math:: N g = \sum_{n \in \mathrm{TN}} e^{u_n}

    An anchor without a true negative has no mass: its loss is 0, its gradient zero.

    Example:
        >>> import torch
        >>> same_class = torch.tensor([[True, False, False]])
        >>> Oracle()(torch.zeros(1), torch.zeros(1, 3), same_class=same_class).exp().round().tolist()
        [2.0]
    """

    name: ClassVar[str] = "oracle"
    needs_labels: ClassVar[bool] = True

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, **_) -> NegativeMass:
        same_class = checked_shape("same_class", same_class, negatives.shape)
        return unbounded(negatives.masked_fill(same_class, -math.inf).logsumexp(-1))

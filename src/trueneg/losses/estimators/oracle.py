"""Oracle: sum over the known true negatives only."""

import math
from dataclasses import dataclass
from typing import ClassVar

from trueneg.losses.base import Estimator, NegativeMass, checked_shape, unbounded


@dataclass
class Oracle(Estimator):
    r"""Sum over the known true negatives only; shows how much could be gained, and is not a usable method.

    .. math:: N g = \sum_{n \in \mathrm{TN}} e^{u_n}

    An anchor without true negatives has zero mass, so its loss and gradient are 0.

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

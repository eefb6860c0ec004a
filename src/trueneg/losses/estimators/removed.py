"""Negatives that are too similar to the positive are left out."""

import math
from dataclasses import dataclass
from typing import ClassVar

from trueneg.losses.base import Estimator, NegativeMass, checked_shape, unbounded


@dataclass
class Removed(Estimator):
    r"""Negatives that are too similar to the positive are left out.

    .. math:: N g = \sum_{n:\, s_n \le \theta} e^{u_n}

    N counts what is left. For labels, a similarity of 1 where two samples share one and 0 elsewhere, and any
    threshold in [0, 1). An anchor with nothing left has no mass: its loss is 0, its gradient zero.

    Args:
        threshold: θ, the largest similarity that stays.

    Raises:
        ValueError: if the threshold is not a finite number.

    Example:
        >>> import torch
        >>> similarity = torch.tensor([[0.9, 0.1, -0.2]])
        >>> Removed(0.5)(torch.zeros(1), torch.zeros(1, 3), similarity=similarity).exp().round().tolist()
        [2.0]
    """

    name: ClassVar[str] = "remove"
    needs_similarity: ClassVar[bool] = True
    threshold: float = 0.5

    def __post_init__(self):
        if not math.isfinite(self.threshold):
            raise ValueError(f"threshold is {self.threshold}, expected a finite number.")

    def mass(self, positive, negatives, class_probability=None, floor=None, *, similarity=None, **_) -> NegativeMass:
        similarity = checked_shape("similarity", similarity, negatives.shape).detach()
        return unbounded(negatives.masked_fill(similarity > self.threshold, -math.inf).logsumexp(-1))

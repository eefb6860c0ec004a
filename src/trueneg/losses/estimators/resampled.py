"""Resample negatives in favour of those dissimilar to the positive."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.losses.anchors import Anchors, NegativeMass, unbounded
from trueneg.losses.base import Estimator
from trueneg.losses.checks import checked_count


@dataclass(repr=False)
class Resampled(Estimator):
    r"""Replace the negatives by a random draw that favours those dissimilar to the positive.

    .. math:: N g = \sum_{k=1}^{K} e^{u_{n_k}},\qquad P(n_k = n) \propto 1 - \max(0, s_n)

    drawn with replacement at each call, using torch's default RNG; N is the number of draws, K. If
    all negatives of an anchor have similarity 1 to its positive, its mass is zero, and its loss and
    gradient are 0.

    Args:
        size: K, number of negatives to draw for each anchor.

    Raises:
        ValueError: if the size is not a positive integer.

    Example:
        >>> similarity = torch.tensor([[1.0, 1.0, 0.0]])  # only the last can be drawn
        >>> negatives = torch.tensor([[9.0, 9.0, 2.0]]).log()
        >>> Resampled(4)(torch.zeros(1), negatives, similarity=similarity).exp().round().tolist()
        [8.0]
    """

    name = "resample"
    needs_similarity = True
    size: int = 32

    def __post_init__(self):
        super().__post_init__()
        checked_count("size", self.size, "draws", optional=False)

    def weight(self, similarity: Tensor) -> Tensor:
        """Return 1 − max(0, s), proportional to the probability of a draw, in the shape of
        `similarity`.
        """
        return 1 - similarity.clamp(0, 1)  # rounding can make a cosine exceed 1

    def mass(self, anchors: Anchors) -> NegativeMass:
        negatives = anchors.negatives
        similarity = anchors.required("similarity").to(negatives.dtype)
        weight = self.weight(similarity).masked_fill(~anchors.is_negative, 0)
        none_left = (weight == 0).all(-1)
        drawn = torch.multinomial(
            weight.masked_fill(none_left[:, None], 1), self.size, replacement=True
        )
        log_sum = negatives.gather(-1, drawn).logsumexp(-1)
        return unbounded(log_sum.masked_fill(none_left, -math.inf), 1 - weight)

"""Remove negatives that are too similar to the positive."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from trueneg.losses.base import Estimator, NegativeMass, checked_shape, unbounded


@dataclass
class Removed(Estimator):
    r"""Remove negatives that are too similar to the positive.

    .. math:: N g = \sum_{n:\, s_n \le \theta} e^{u_n}

    N is the number of remaining negatives. To remove by label, set the similarity to 1 for samples that share a
    label and 0 otherwise, and use any threshold in [0, 1). An anchor with no remaining negatives has zero mass, so
    its loss and gradient are 0.

    Args:
        threshold: θ, the largest similarity that is kept.

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
            raise ValueError(f"threshold is {self.threshold}; expected a finite number.")

    def weight(self, similarity: Tensor) -> Tensor:
        """Return 1 for negatives that are kept and 0 for those removed, in the shape of `similarity`."""
        return (similarity <= self.threshold).to(similarity.dtype)

    def mass(self, positive, negatives, class_probability=None, floor=None, *, similarity=None, **_) -> NegativeMass:
        similarity = checked_shape("similarity", similarity, negatives.shape).detach()
        return unbounded(negatives.masked_fill(self.weight(similarity) == 0, -math.inf).logsumexp(-1))

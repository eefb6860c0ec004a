"""Soft targets: how much of an anchor's attraction goes to other samples than its own positive.

A rule is called with the numbers of samples here (B) and of all columns' samples (S), the rank of this process, the known
similarity (A, S) or (A, V·S), the number of views V and the device; it returns targets (B, S) whose rows sum to 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trueneg.losses.base import next_largest

Device = torch.device | None


@dataclass
class HalfUniform:
    """Half for the positive, half uniform over all samples: the control for every claim about soft targets.

    Example:
        >>> HalfUniform()(2, 2, 0, None, views=1).tolist()
        [[0.75, 0.25], [0.25, 0.75]]
    """

    def __call__(
        self, count: int, samples: int, rank: int, similarity: Tensor | None, *, views: int, device: Device = None
    ) -> Tensor:
        targets = torch.full((count, samples), 0.5 / samples, device=device)
        targets.diagonal(rank * count).add_(0.5)
        return targets


@dataclass
class Attracted:
    r"""Uniform over the positive and the false negatives found: attraction of False Negative Cancellation (Huynh et al., 2022).

    .. math:: T_{ii} = \frac{1}{1 + V F_i},\qquad T_{ij} = \frac{V}{1 + V F_i} \text{ for the } F_i \text{ samples found}

    with V views. Found are the samples with a similarity above the threshold among the ``top_k`` most similar ones; a sample's
    similarity is the largest over its views and the anchor's.

    Args:
        threshold: similarity above which a sample is found.
        top_k: largest number of samples found, as in :class:`~trueneg.losses.Removed`; None: no limit.

    Raises:
        ValueError: if the threshold is not a finite number, or ``top_k`` not a positive integer; in a call, without a known
            similarity, or with fewer than ``top_k`` other samples.

    Example:
        >>> similarity = torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])
        >>> Attracted(threshold=0.5)(3, 3, 0, similarity, views=1).tolist()
        [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """

    threshold: float = 0.7
    top_k: int | None = None

    def __post_init__(self):
        if not math.isfinite(self.threshold):
            raise ValueError(f"targets.threshold is {self.threshold}; expected a finite number.")
        if self.top_k is not None and not (isinstance(self.top_k, int) and self.top_k > 0):
            raise ValueError(f"targets.top_k is {self.top_k}; expected a positive integer, or None.")

    def __call__(
        self, count: int, samples: int, rank: int, similarity: Tensor | None, *, views: int, device: Device = None
    ) -> Tensor:
        if similarity is None:
            raise ValueError("negative_similarity is missing; the targets fnc need it.")
        known = similarity.detach() if similarity.dtype == torch.float64 else similarity.detach().float()
        nearest = known.view(views, count, -1, samples).amax((0, 2))
        own = torch.arange(rank * count, (rank + 1) * count, device=nearest.device)[:, None]
        nearest = nearest.scatter(1, own, -math.inf)
        found = nearest > self.threshold
        if self.top_k is not None:
            if self.top_k >= samples:
                raise ValueError(f"targets.top_k is {self.top_k}; expected at most {samples - 1}, the number of other samples.")
            found &= nearest > next_largest(nearest, self.top_k)
        weight = views * found.to(nearest.dtype)
        return weight.scatter(1, own, 1.0) / (1 + weight.sum(1, keepdim=True))


RULES: dict[str, Callable[..., Any]] = {"onehot": lambda: None, "half_uniform": HalfUniform, "fnc": Attracted}

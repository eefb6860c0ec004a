"""Guided removal: drop negatives that a guide rates more similar than the anchor's own positive."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from trueneg.losses.base import Selecting, checked_shape


@dataclass
class Guided(Selecting):
    r"""Remove negatives that a guide rates more similar than the anchor's own positive, minus a
    margin.

    .. math:: N g = \sum_{n:\, s_n \le s_p - m} e^{u_n}

    GISTEmbed (Solatorio, 2024) and, with m = −0.1, Qwen3-Embedding (Zhang et al., 2025). The guide
    can be any model, including the one being trained; its similarities get no gradient. N is the
    number of remaining negatives. An anchor with none left has zero mass, so its loss and gradient
    are 0.

    Args:
        margin: m; positive values remove more negatives, negative values fewer.

    Raises:
        ValueError: if the margin is not a finite number.

    Example:
        >>> import torch
        >>> guide = {
        ...     "similarity": torch.tensor([[0.9, 0.7, 0.1]]),
        ...     "positive_similarity": torch.tensor([0.8]),
        ... }
        >>> Guided()(torch.zeros(1), torch.zeros(1, 3), **guide).exp().round().tolist()
        [2.0]
        >>> Guided(margin=0.2)(torch.zeros(1), torch.zeros(1, 3), **guide).exp().round().tolist()
        [1.0]
    """

    name: ClassVar[str] = "guided"
    needs_similarity = True
    needs_positive_similarity: ClassVar[bool] = True
    marks = True
    margin: float = 0.0

    def __post_init__(self):
        if not math.isfinite(self.margin):
            raise ValueError(f"margin is {self.margin}; expected a finite number.")

    def marked(self, negatives, *, similarity=None, positive_similarity=None, **_) -> Tensor:
        similarity = checked_shape("similarity", similarity, negatives.shape).detach()
        if positive_similarity is None:
            raise ValueError(
                "Guided needs positive_similarity, the guide's similarity of each anchor and its"
                " own positive."
            )
        of_positive = (
            checked_shape("positive_similarity", positive_similarity, negatives.shape[:1])
            .detach()
            .to(similarity.dtype)
        )
        return similarity > (of_positive - self.margin)[:, None]

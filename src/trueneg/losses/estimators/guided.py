"""Guided removal: drop negatives that a guide rates more similar than the anchor's own positive."""

import math
from dataclasses import dataclass

from torch import Tensor

from trueneg.losses.anchors import Anchors
from trueneg.losses.base import Selecting
from trueneg.losses.checks import checked_choice

STRATEGIES = ("absolute", "relative")


@dataclass(repr=False)
class Guided(Selecting):
    r"""Remove negatives that a guide rates more similar than the anchor's own positive, minus a
    margin.

    .. math:: N g = \sum_{n:\, s_n \le s_p - m} e^{u_n}

    GISTEmbed (Solatorio, 2024) and, with m = −0.1, Qwen3-Embedding (Zhang et al., 2025). With the
    strategy ``"relative"``, the limit is :math:`s_p - m\,|s_p|`, as in sentence-transformers'
    ``GISTEmbedLoss(margin_strategy="relative")``; for a positive s_p and m = 0.05, these are the 95
    % of the positive's similarity above which NV-Retriever (Moreira et al., 2024, TopK-PercPos)
    takes no hard negatives. The guide can be any model, including the one being trained; its
    similarities get no gradient. N is the number of remaining negatives. An anchor with none left
    has zero mass, so its loss and gradient are 0.

    Args:
        margin: m; positive values remove more negatives, negative values fewer.
        strategy: ``"absolute"`` or ``"relative"``.

    Raises:
        ValueError: if the margin is not a finite number, or the strategy is unknown.

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
        >>> guided = Guided(margin=0.1, strategy="relative")  # at most 0.8 − 0.08
        >>> guided(torch.zeros(1), torch.zeros(1, 3), **guide).exp().round().tolist()
        [2.0]
    """

    name = "guided"
    needs_similarity = True
    needs_positive_similarity = True
    margin: float = 0.0
    strategy: str = "absolute"

    def __post_init__(self):
        super().__post_init__()
        if not math.isfinite(self.margin):
            raise ValueError(f"margin is {self.margin}; expected a finite number.")
        checked_choice("strategy", self.strategy, STRATEGIES)

    def marked(self, anchors: Anchors) -> Tensor:
        similarity = anchors.required("similarity")
        of_positive = anchors.required("threshold").to(similarity.dtype)
        of_margin = of_positive.abs() if self.strategy == "relative" else 1
        return similarity > (of_positive - self.margin * of_margin)[:, None]

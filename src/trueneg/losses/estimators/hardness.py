"""Hardness weighting without gradient: larger weights for near negatives."""

import math
from dataclasses import dataclass

from trueneg.losses.anchors import Anchors, NegativeMass, unbounded
from trueneg.losses.base import Estimator
from trueneg.losses.log_space import log_sum_exp


@dataclass(repr=False)
class HardnessWeighted(Estimator):
    r"""Weight near negatives more, by a factor without gradient.

    .. math:: N g = \sum_n e^{\alpha \cos_n} e^{u_n}

    LLaVE (Lan et al., 2025, equation 5, α = 9) for in-batch negatives, EmbeddingGemma (Schechter
    Vera et al., 2025, α = 5) for hard ones; sentence-transformers' ``hardness_mode`` is the
    ``scope`` of this class: ``in_batch_negatives`` is ``in_batch``, ``hard_negatives`` ``hard``,
    ``all_negatives`` ``all``. There, only cosines of anchors and documents are weighted: in a joint
    or symmetric contrast, ``in_batch`` and ``all`` also weight the other negatives here.
    :class:`HardNegative` normalises its weights and lets gradients flow through them.

    Args:
        alpha: α ≥ 0.
        scope: see :class:`~trueneg.losses.Estimator`.

    Raises:
        ValueError: if α is negative or not finite; in a call, if the temperature is missing.

    Example:
        >>> import torch
        >>> cosines = torch.tensor([[1.0, 0.0]])  # at t = 1, with weights e and 1
        >>> mass = HardnessWeighted(alpha=1.0)(torch.zeros(1), cosines, temperature=1.0).exp()
        >>> round(mass.item() - math.e**2, 3)
        1.0
    """

    name = "hardness"
    alpha: float = 9.0

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha is {self.alpha}; expected a finite number of at least 0.")

    def mass(self, anchors: Anchors) -> NegativeMass:
        if self.alpha == 0:  # 0 · −∞ would be NaN
            return unbounded(log_sum_exp(anchors.negatives))
        return unbounded(log_sum_exp(anchors.negatives + self.alpha * anchors.cosines))

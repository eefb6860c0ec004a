"""DCL: subtract the expected share of false negatives."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.losses.anchors import Anchors, NegativeMass, unbounded
from trueneg.losses.base import Estimator
from trueneg.losses.checks import checked_class_probability
from trueneg.losses.log_space import log_sum_exp


class Subtracting(Estimator):
    r"""Subtract the expected mass of false negatives from a sum S over all negatives.

    .. math::

        N g = \max\Bigl(\frac{S - N \eta\, \overline{e^{p}}}{1-\eta},\; N e^{-1/t}\Bigr)

    Subclasses may weight the sum.
    """

    uses_class_probability = True
    uses_extra_positives = True
    class_probability: float | Tensor | None

    def __post_init__(self):
        super().__post_init__()
        self.class_probability = checked_class_probability(self.class_probability)

    def log_sum(self, anchors: Anchors) -> Tensor:
        """Return the log of S, shape (A,): the sum of e^u over the negatives."""
        return log_sum_exp(anchors.negatives)

    def mass(self, anchors: Anchors) -> NegativeMass:
        eta = anchors.eta(self.class_probability)
        log_sum = self.log_sum(anchors)
        # Relative to the sum; the clamp avoids 0 · ∞
        false = eta * (anchors.log_count + anchors.log_mean_positive - log_sum).clamp(max=80).exp()
        share = (1 - false) / (1 - eta)
        if anchors.temperature is None:
            return unbounded(log_sum + share.log())
        bound = anchors.log_count - 1 / anchors.temperature
        at_bound = (share <= (bound - log_sum).exp()) & (eta > 0)
        # log 0 would give NaN gradients even where unused
        estimate = log_sum + share.masked_fill(at_bound, 1).log()
        return NegativeMass(torch.where(at_bound, bound, estimate), at_bound)

    def mean(self, anchors: Anchors) -> Tensor:
        eta = anchors.eta(self.class_probability)
        mean = (self.log_sum(anchors) - anchors.log_count).exp()
        positives = anchors.positive.reshape(len(anchors.positive), -1)
        return (mean - eta * positives.exp().mean(-1)) / (1 - eta)


@dataclass(repr=False)
class Debiased(Subtracting):
    r"""Subtract the expected share of false negatives: DCL.

    .. math::

        N g = \max\Bigl(\frac{\sum_n e^{u_n} - N \eta\, \overline{e^{p}}}{1-\eta},\; N e^{b}\Bigr)

    with b = −1/t at temperature t, and the mean of e^p over the M positives. Chuang et al. (2020)
    for one η; Sample-Specific Debiasing (2023), equations 6 to 8, for one η per anchor. Without a
    temperature, there is no bound, and the log mass is NaN where the estimate is negative. At η =
    0 this is :class:`Uncorrected`.

    Args:
        class_probability: η in [0, 1), the probability that a random sample shares the anchor's
            class: a single number, or a tensor with one value per anchor, shape (A,). None: each
            call passes its own.

    Raises:
        ValueError: if a class probability is negative, not below 1 or not finite. Tensors on an
            accelerator are not checked, because that would synchronize the device; there an invalid
            η makes the mass NaN.

    Example:
        >>> import torch
        >>> estimator = Debiased(0.1)
        >>> log_mass = estimator(positive=torch.zeros(2), negatives=torch.zeros(2, 62))
        >>> round(log_mass.exp().tolist()[0], 3)  # all logits are equal: the mass is the count
        62.0
    """

    name = "dcl"
    class_probability: float | Tensor | None = None

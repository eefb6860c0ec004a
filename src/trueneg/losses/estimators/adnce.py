"""ADNCE: weight each negative by a normal density of its cosine, so that neither the nearest nor
the farthest count most.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.losses.anchors import Anchors, NegativeMass, unbounded
from trueneg.losses.base import Estimator
from trueneg.losses.checks import checked_positive
from trueneg.losses.log_space import log_sum_exp


@dataclass(repr=False)
class AdjustedInfoNCE(Estimator):
    r"""Weight negatives by a normal density of their cosine with the anchor: ADNCE.

    .. math::

        N g = \sum_n w_n e^{u_n}, \qquad w_n \propto e^{-(c_n - \mu)^2 / 2 \sigma^2}, \quad
        \overline{w} = 1

    with the cosine :math:`c_n = t\,u_n` at temperature t. Wu et al. (2023), Understanding
    Contrastive Learning via Distributionally Robust Optimization. As in their code for images, the
    weights get no gradient, and their mean is taken over the negatives alone (their code for
    sentences also weights the positive). The defaults are theirs for CIFAR10 (at t = 0.4). A large
    σ weights all negatives alike, as :class:`Uncorrected`.

    Args:
        mu: μ, cosine with the largest weight; published values are 0.4 to 0.8 and, for one model of
            sentences, 2.
        sigma: σ > 0; published values are 0.5 and 1.
        shuffled: control: permute each anchor's weights over its negatives, at random at each call.

    Raises:
        ValueError: if μ is not finite, or σ is not positive and finite; in a call, if the
            temperature is missing.

    Example:
        >>> negatives = torch.tensor([[0.9, 0.1]])  # cosines, at t = 1
        >>> weights = torch.tensor([-(0.2**2), -(0.6**2)]).div(2 * 0.5**2).softmax(0) * 2
        >>> estimator = AdjustedInfoNCE(mu=0.7, sigma=0.5)
        >>> mass = estimator(torch.zeros(1), negatives, temperature=1.0).exp()
        >>> torch.allclose(mass, (weights * negatives.exp()).sum())
        True
    """

    name = "adnce"
    mu: float = 0.7
    sigma: float = 0.5
    shuffled: bool = False

    def __post_init__(self):
        super().__post_init__()
        if not math.isfinite(self.mu):
            raise ValueError(f"mu is {self.mu}; expected a finite number.")
        checked_positive("sigma", self.sigma)

    def mass(self, anchors: Anchors) -> NegativeMass:
        negatives = anchors.negatives
        cosines = anchors.cosines
        # The square of a column that is not a negative, −∞, is ∞, so its weight is 0
        log_weights = cosines.sub_(self.mu).square_().mul_(-0.5 / self.sigma**2)
        if self.shuffled:
            log_weights = log_weights.scatter(
                -1, _random_order(log_weights), log_weights.gather(-1, _random_order(log_weights))
            )
        log_mean = log_sum_exp(log_weights) - anchors.log_count
        return unbounded(log_sum_exp(negatives + log_weights) - log_mean)


def _random_order(log_weights: Tensor) -> Tensor:
    """Return (A, N) column indices of each anchor in random order, first those of negatives."""
    keys = torch.rand_like(log_weights).masked_fill(log_weights.isneginf(), 2)
    return keys.argsort(-1)

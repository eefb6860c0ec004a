"""InfoNCE without correction: treat every negative as a true negative."""

from dataclasses import dataclass

from trueneg.losses.anchors import Anchors, NegativeMass, unbounded
from trueneg.losses.base import Estimator
from trueneg.losses.log_space import log_sum_exp


@dataclass(repr=False)
class Uncorrected(Estimator):
    r"""Treat every negative as a true negative: InfoNCE (Oord et al., 2018), SimCLR (Chen et al.,
    2020).

    .. math:: N g = \sum_n e^{u_n}

    Example:
        >>> import torch
        >>> Uncorrected()(torch.zeros(2), torch.zeros(2, 62)).exp().round().tolist()
        [62.0, 62.0]
    """

    name = "cl"

    def mass(self, anchors: Anchors) -> NegativeMass:
        return unbounded(log_sum_exp(anchors.negatives))

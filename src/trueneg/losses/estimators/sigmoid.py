"""The sigmoid loss: each pair is classified on its own, and an anchor can have several
positives.
"""

import math
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from trueneg.losses.base import Estimator, NegativeMass, checked_shape, own_positive, unbounded

POSITIVES = ("own", "labels")


class Sigmoid(Estimator, nn.Module):
    r"""Classify each pair as positive or negative, independently of the others: SigLIP.

    .. math::

        L = \operatorname{softplus}(-(p + b)) + \sum_n \operatorname{softplus}(-m_n (u_n +
        b)), \qquad
              N g = e^p (e^L - 1)

    with :math:`m_n = 1` for further positives, else −1; Zhai et al. (2023), and with several
    positives FaNe (2025). This N·g is no mass of negatives: it makes the anchor's loss,
    :math:`\log(1 + N g / e^p)`, equal to L. Columns that are not negatives add nothing. The bias is
    a parameter of the loss, to be trained with the network.

    Args:
        bias: b at the start.
        learned_bias: whether b is trained.
        positives: further positives. ``"own"``: none; ``"labels"``: columns of the anchor's class.

    Raises:
        ValueError: if the bias is not finite, or ``positives`` is unknown.

    Example:
        >>> loss = Sigmoid(bias=-1.0)  # p and u are 1 and −∞: softplus(−(1 − 1)) + 0
        >>> mass = loss(torch.ones(1), torch.full((1, 3), -math.inf))
        >>> round(functional.softplus(mass - 1).item(), 4)
        0.6931
        >>> [name for name, _ in loss.named_parameters()]
        ['bias']
    """

    name: ClassVar[str] = "sigmoid"
    combines: ClassVar[bool] = False

    def __init__(self, bias: float = -10.0, learned_bias: bool = True, positives: str = "own"):
        super().__init__()
        if not math.isfinite(bias):
            raise ValueError(f"bias is {bias}; expected a finite number.")
        if positives not in POSITIVES:
            raise ValueError(f"positives is {positives!r}; expected one of {', '.join(POSITIVES)}.")
        self.bias = nn.Parameter(torch.tensor(float(bias)), requires_grad=learned_bias)
        self.positives = positives
        self.needs_labels = self.marks = positives == "labels"

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"bias={self.bias.item():g}, positives={self.positives!r}"

    def mass_of_valid(self, positive, negatives, valid, **facts) -> NegativeMass:
        # Not that of the base class, which gives anchors without negatives a loss of 0: they still
        # have their positive.
        return self.mass(positive, negatives.masked_fill(~valid, -math.inf), **facts)

    def mass(self, positive, negatives, *, same_class=None, **_) -> NegativeMass:
        own = own_positive(positive)
        logits = negatives + self.bias
        marked = None
        if self.positives == "labels":
            marked = checked_shape("same_class", same_class, negatives.shape)
            logits = torch.where(marked & ~negatives.isneginf(), -logits, logits)
        loss = functional.softplus(-(own + self.bias)) + functional.softplus(logits).sum(-1)
        # at 0, the derivative of log(e^L − 1) is infinite
        loss = loss.clamp(min=torch.finfo(loss.dtype).tiny)
        return unbounded(own + loss + (-torch.expm1(-loss)).log(), marked)

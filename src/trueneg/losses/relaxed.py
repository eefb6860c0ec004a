"""ReCo: negatives need only be orthogonal, so there is no denominator to correct."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.losses.pairs import without_own
from trueneg.losses.terms import single_precision


class RelaxedContrastiveLoss(nn.Module):
    r"""Pulls pairs together and pushes others apart until they are orthogonal (ReCo, equation 3).

    .. math:: L = \sum_i (1 - c_{ii})^2 + \lambda \sum_i \sum_{j \ne i} \max(0, c_{ij})^2

    with cosines c of (B, D) embeddings. These are sums, as in the paper: B positive terms and B(B−1) negative
    ones, so λ belongs to a batch size (0.6 was chosen at 64).

    Args:
        negative_weight: λ ≥ 0.
        relaxed: whether a negative cosine costs nothing; False: c_ij² for all, the orthogonality constraint.

    Raises:
        ValueError: if λ is negative or not finite.

    Example:
        >>> loss = RelaxedContrastiveLoss(negative_weight=0.6)
        >>> loss(torch.eye(4), torch.eye(4)).item()                   # aligned pairs, orthogonal others
        0.0
        >>> round(loss(torch.ones(4, 2), torch.ones(4, 2)).item(), 3)   # 0.6 · 4 · 3
        7.2
    """

    def __init__(self, negative_weight: float = 0.6, relaxed: bool = True):
        super().__init__()
        if not 0 <= negative_weight < float("inf"):
            raise ValueError(f"negative_weight is {negative_weight}, expected a finite number of at least 0.")
        self.negative_weight = negative_weight
        self.relaxed = relaxed

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The scalar loss.

        Args:
            u: (B, D) embeddings of one modality (or view); normalised here.
            v: (B, D) of the other.

        Raises:
            ValueError: if the shapes differ.
        """
        if u.dim() != 2 or u.shape != v.shape:
            raise ValueError(f"u and v have the shapes {tuple(u.shape)} and {tuple(v.shape)}, expected both (B, D).")
        with torch.autocast(u.device.type, enabled=False):
            u, v = (functional.normalize(each, dim=-1, eps=1e-7) for each in single_precision(u, v))
            cosine = u @ v.mT
            negatives = without_own(cosine)
            if self.relaxed:
                negatives = negatives.clamp(min=0)
            positive_term = (1 - cosine.diagonal()).square().sum()
            return positive_term + self.negative_weight * negatives.square().sum()

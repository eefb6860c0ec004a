"""The two-view contrastive loss (SimCLR's setting) with any estimator of the true-negative mass."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.losses.estimators import Estimator
from trueneg.losses.pairs import without_own


class ContrastiveTerms(NamedTuple):
    """A contrastive loss with what it was computed from; A anchors, N negatives, M positives.

    Attributes:
        loss: scalar, the mean over the anchors.
        positive: (A, M) logits; the first column is the anchor's own positive.
        negatives: (A, N) logits.
        log_negative_mass: (A,) the estimator's log(N·g).
        at_bound: (A,) bool: log(N·g) is its lower bound, so the anchor's negatives get no gradient.
    """

    loss: Tensor
    positive: Tensor
    negatives: Tensor
    log_negative_mass: Tensor
    at_bound: Tensor


class ContrastiveLoss(nn.Module):
    r"""Two views of each of B samples; each view of a sample is an anchor whose positive is the other view.

    .. math:: L = \frac{1}{2B} \sum_a -\log \frac{e^{p_a}}{e^{p_a} + N g_a}

    with logits p, u = cosine / temperature, N = 2B − 2 negatives (both views of the other samples), and log(N·g) from the
    estimator, bounded below by g ≥ e^(−1/temperature), the least that e^u can be. Computed in float32 under autocast.

    Args:
        estimator: how the mass of the true negatives is estimated.
        temperature: t > 0.

    Raises:
        ValueError: if the temperature is not positive.

    Example:
        >>> from trueneg.losses import ContrastiveLoss, Debiased
        >>> loss = ContrastiveLoss(Debiased(0.1), temperature=0.5)
        >>> z1, z2 = torch.eye(4), torch.eye(4)        # views agree, samples are orthogonal
        >>> round(loss(z1, z2).item(), 3)              # log(1 + (6·e^0 − 0.1·6·e^2) / 0.9 / e^2)
        0.212
    """

    def __init__(self, estimator: Estimator, temperature: float = 0.5):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}, expected a positive number.")
        self.estimator = estimator
        self.temperature = temperature

    def forward(self, z1, z2, class_probability=None, extra_positives=None, labels=None, negative_similarity=None) -> Tensor:
        """The scalar loss; arguments as for :meth:`terms`."""
        return self.terms(z1, z2, class_probability, extra_positives, labels, negative_similarity).loss

    def terms(
        self,
        z1: Tensor,
        z2: Tensor,
        class_probability: float | Tensor | None = None,
        extra_positives: Tensor | None = None,
        labels: Tensor | None = None,
        negative_similarity: Tensor | None = None,
    ) -> ContrastiveTerms:
        """The loss and what it was computed from, in one pass and without waiting for the device.

        Anchors are ordered view 1 of samples 0 … B−1, then view 2. An anchor's negatives are the B−1 others of its own view,
        then the B−1 others of the other view, in the order of the samples.

        Args:
            z1: (B, D) embeddings of the first views; normalised here.
            z2: (B, D) of the second views.
            class_probability: η, a number or one per sample, shape (B,); overrides the estimator's own.
            extra_positives: (B, M−1, D) further draws from each sample's class, for the estimator; the numerator keeps the
                first positive.
            labels: (B,) class of each sample, for estimators that need labels.
            negative_similarity: (B, B) known similarity of samples, for estimators that need it.

        Raises:
            ValueError: if shapes do not fit, or something is missing that the estimator needs.
        """
        if z1.dim() != 2 or z1.shape != z2.shape or len(z1) < 2:
            raise ValueError(
                f"z1 and z2 have the shapes {tuple(z1.shape)} and {tuple(z2.shape)}, expected the same (B, D) with B of at least 2."
            )
        count = len(z1)
        if isinstance(class_probability, Tensor) and class_probability.dim() > 0:
            if class_probability.shape != (count,):
                raise ValueError(
                    f"class_probability has the shape {tuple(class_probability.shape)}, expected one value per sample: ({count},)."
                )
            class_probability = class_probability.repeat(2)
        with torch.autocast(z1.device.type, enabled=False):
            views = functional.normalize(torch.stack((z1, z2)).to(torch.promote_types(z1.dtype, torch.float32)), dim=-1)
            first, second = views
            keys = torch.stack((views, views.flip(0)))  # (anchor's view, own or other, B, D)
            logits = views[:, None] @ (keys / self.temperature).mT
            negatives = without_own(logits).transpose(1, 2).reshape(2 * count, 2 * count - 2)
            positive = ((first * second).sum(-1) / self.temperature).repeat(2)[:, None]
            if extra_positives is not None:
                extra = functional.normalize(extra_positives.to(views.dtype), dim=-1)
                further = torch.einsum("vbd,bmd->vbm", views, extra) / self.temperature
                positive = torch.cat((positive, further.flatten(0, 1)), dim=1)
            mass = self.estimator.mass(
                positive,
                negatives,
                class_probability,
                -1 / self.temperature,
                **pairs(self.estimator, count, labels, negative_similarity),
            )
            loss = functional.softplus(mass.log - positive[:, 0]).mean()
        return ContrastiveTerms(loss, positive, negatives, mass.log, mass.at_bound)


def pairs(estimator: Estimator, count: int, labels: Tensor | None, negative_similarity: Tensor | None) -> dict[str, Tensor]:
    """What the estimator needs to know about pairs of samples, for the 2B anchors and their 2B−2 negatives.

    Raises:
        ValueError: if it is missing or has the wrong shape.
    """
    known = {}
    if estimator.needs_labels:
        if labels is None or labels.shape != (count,):
            raise ValueError(f"{type(estimator).__name__} needs labels, one per sample: a tensor of shape ({count},).")
        known["same_class"] = without_own(labels[:, None] == labels[None, :]).repeat(2, 2)
    if estimator.needs_similarity:
        if negative_similarity is None or negative_similarity.shape != (count, count):
            raise ValueError(f"{type(estimator).__name__} needs negative_similarity, a tensor of shape ({count}, {count}).")
        known["similarity"] = without_own(negative_similarity).repeat(2, 2)
    return known

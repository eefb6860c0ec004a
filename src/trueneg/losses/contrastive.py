"""Two-view contrastive loss (the SimCLR setting) with any estimator of the true-negative mass."""

from typing import Any

import torch
from torch import Tensor

from trueneg.losses.base import Estimator, check_tensors, checked_shape
from trueneg.losses.estimator_loss import ContrastiveTerms, EstimatorLoss
from trueneg.losses.execution import gathered, outside_autocast, single_precision, unit_length
from trueneg.losses.facts import SampleFacts
from trueneg.losses.layout import Layout
from trueneg.losses.targets import Rule


class ContrastiveLoss(EstimatorLoss):
    r"""Contrastive loss over two views of B samples; each view is an anchor and its positive is the
    sample's other view.

    .. math:: L = \frac{1}{2B} \sum_a -\log \frac{e^{p_a}}{e^{p_a} + N g_a}

    with logits p, u = cosine / temperature, N = 2B − 2 negatives (both views of the other samples),
    and log(N·g) from the estimator, bounded below by g ≥ e^(−1/temperature), the smallest possible
    value of e^u. The loss is computed in float32 under autocast, and in float64 for float64
    embeddings.

    With ``targets`` or ``decoupled``, see :func:`trueneg.losses.anchor_loss.anchor_loss`.

    Args:
        estimator: estimator of the true-negative mass.
        temperature: t > 0.
        decoupled: leave the positive out of the denominator (decoupled contrastive learning, Yeh et
            al., 2022).
        chunk_size: number of anchors to process at a time, for batches whose (2B)² logits do not
            fit in memory; chunks are recomputed in the backward pass. None: all at once.
        gather_distributed: use the samples of all processes as negatives (``torch.distributed``);
            every process must have the same B. The loss is the mean over this process's anchors, so
            averaging gradients with DistributedDataParallel gives the gradient of the loss over the
            whole batch.
        target_rule: computes targets from the known similarity for calls that pass none
            (:mod:`trueneg.losses.targets`).

    Raises:
        ValueError: if ``estimator`` is not an :class:`Estimator`, or the temperature or the chunk
            size is not positive.

    Example:
        >>> from trueneg.losses import ContrastiveLoss, Debiased
        >>> loss = ContrastiveLoss(Debiased(0.1), temperature=0.5)
        >>> z1, z2 = torch.eye(4), torch.eye(4)  # views agree, samples are orthogonal
        >>> round(loss(z1, z2).item(), 3)  # log(1 + (6·e^0 − 0.1·6·e^2) / 0.9 / e^2)
        0.212
    """

    def __init__(
        self,
        estimator: Estimator,
        temperature: float = 0.5,
        *,
        decoupled: bool = False,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
        target_rule: Rule | None = None,
    ):
        super().__init__(estimator, decoupled, chunk_size, gather_distributed, target_rule)
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; expected a positive number.")
        self.temperature = temperature

    def forward(self, z1: Tensor, z2: Tensor, *known: Any, **named: Any) -> Tensor:
        """Return the scalar loss; takes the same arguments as :meth:`terms`."""
        return self.terms(z1, z2, *known, **named).loss

    def terms(
        self,
        z1: Tensor,
        z2: Tensor,
        class_probability: float | Tensor | None = None,
        extra_positives: Tensor | None = None,
        labels: Tensor | None = None,
        negative_similarity: Tensor | tuple[Tensor, Tensor] | None = None,
        positive_similarity: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> ContrastiveTerms:
        """Return the loss and the terms it is computed from, in one pass without synchronizing the
        device.

        Anchors are ordered as view 1 of samples 0 … B−1, then view 2. An anchor's negatives have
        the same order, without the two views of its own sample.

        Args:
            z1: (B, D) embeddings of the first views; normalised by this method.
            z2: (B, D) embeddings of the second views; normalised by this method.
            class_probability: η, a single number or one value per sample, shape (B,); overrides the
                estimator's own.
            extra_positives: (B, M−1, D) further draws from each sample's class, used by the
                estimator only; the numerator keeps the first positive.
            labels: (B,) class of each sample, for estimators that need labels.
            negative_similarity: known similarity between samples, for estimators that need it: (B,
                B), whose transpose is used for the second views; a pair of these, for first and
                second views; or (2B, 2B) over all views. With several processes, there is one
                column for each sample of all processes: (B, G), assumed symmetric; a pair; or (2B,
                2G).
            positive_similarity: (B,) or (2B,) known similarity of each anchor and its positive, for
                estimators that need it.
            targets: (B, B), or (B, G) with several processes; each row sums to 1. T_ii is the
                weight of the positive; T_ij is divided equally between the two views of sample j.
                With 2B rows, each view of a sample has its own targets. They get no gradient. None:
                the positive has all the weight.

        Raises:
            ValueError: if shapes do not match, or an input required by the estimator is missing.
        """
        check_tensors(z1=z1, z2=z2)
        if z1.dim() != 2 or z1.shape != z2.shape:
            raise ValueError(
                f"z1 and z2 have shapes {tuple(z1.shape)} and {tuple(z2.shape)}; expected both"
                " (B, D)."
            )
        check_tensors(
            labels=labels,
            positive_similarity=positive_similarity,
            targets=targets,
            extra_positives=extra_positives,
        )
        count, dimensions = z1.shape
        with outside_autocast(z1.device):
            views = unit_length(single_precision(torch.cat((z1, z2)))[0])
            anchors = views / self.temperature
            positive = torch.linalg.vecdot(anchors, views.roll(count, 0))
            if extra_positives is not None:
                expected = count, extra_positives.shape[1], dimensions
                checked_shape("extra_positives", extra_positives, expected)
                further = unit_length(extra_positives.to(views.dtype)).repeat(2, 1, 1)
                of_further = torch.linalg.vecdot(anchors[:, None], further)
                positive = torch.cat((positive[:, None], of_further), dim=1)
            keys, rank = views, 0
            if self.gather_distributed:
                everyone, rank = gathered(views.view(2, count, dimensions))
                keys = everyone.transpose(0, 1).flatten(0, 2)  # view 1 of all samples, then view 2
            samples = len(keys) // 2
            layout = Layout(
                count, samples, samples, views=2, offset=rank * count, device=views.device
            )
            if negative_similarity is not None:
                negative_similarity = self._by_anchor(negative_similarity, layout)
            if positive_similarity is not None and positive_similarity.shape == (count,):
                positive_similarity = positive_similarity.repeat(2)
            facts = SampleFacts(
                class_probability=class_probability,
                labels=labels,
                similarity=negative_similarity,
                positive_similarity=positive_similarity,
                targets=targets,
            )
            return self.of_anchors(layout, positive, anchors, keys, self.temperature, facts)

    def _by_anchor(self, similarity: Tensor | tuple[Tensor, Tensor], layout: Layout) -> Tensor:
        """Return a known similarity with one row per anchor, (2B, G) or (2B, 2G)."""
        count, samples = layout.count, layout.samples
        if isinstance(similarity, Tensor):
            if similarity.shape == (2 * count, 2 * samples):
                return similarity
            first = checked_shape("negative_similarity", similarity, (count, samples))
            return torch.cat((first, first.mT if samples == count else first))
        is_sequence = isinstance(similarity, tuple | list)
        if not is_sequence or len(similarity) != 2:
            found = (
                f"has {len(similarity)} parts"
                if is_sequence
                else f"is a {type(similarity).__name__}"
            )
            raise ValueError(
                f"negative_similarity {found}; expected a tensor or a pair of tensors."
            )
        for each in similarity:
            checked_shape("negative_similarity", each, (count, samples))
        return torch.cat(similarity)

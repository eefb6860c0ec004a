"""ReCo: negatives only need to be orthogonal, so there is no denominator to correct."""

import torch
from torch import Tensor, nn

from trueneg.losses.checks import checked_count, checked_shape
from trueneg.losses.execution import (
    by_chunks,
    gathered,
    outside_autocast,
    single_precision,
    unit_length,
)


class RelaxedContrastiveLoss(nn.Module):
    r"""Pull pairs together and push all other samples apart until they are orthogonal (ReCo,
    equation 3, with m = 0).

    .. math:: L = \sum_i (1 - c_{ii})^2 + \lambda \sum_i \sum_{j \ne i} \max(0, c_{ij} - m)^2

    with cosines c of (B, D) embeddings. As in the paper, these are sums over B positive terms and
    B(B−1) negative terms, so the best λ depends on the batch size (0.6 was chosen for a batch size
    of 64).

    Negatives with c ≤ m get no gradient. At m = −1, there are none: each negative's term is (c +
    1)², which is c² + 2c up to a constant. It pushes every negative towards −1, whereas the
    orthogonality constraint, c², pulls negative cosines up to 0.

    Args:
        negative_weight: λ ≥ 0.
        relaxed: if True, cosines below m are not penalised; if False, every (c_ij − m)² is (m = 0:
            orthogonality constraint).
        margin: m in [−1, 1), the cosine up to which a negative is not penalised.
        chunk_size: number of rows i to process at a time; chunks are recomputed in the backward
            pass. None: all at once.
        gather_distributed: let j run over the samples of all processes (``torch.distributed``);
            every process must have the same B. The loss is the sum over this process's rows times
            the number of processes, so the mean of the loss over processes, and the gradients
            averaged by DistributedDataParallel, match the sums over the whole batch.

    Raises:
        ValueError: if λ is negative or not finite, m is not in [−1, 1), or the chunk size is not
            positive.

    Example:
        >>> loss = RelaxedContrastiveLoss(negative_weight=0.6)
        >>> loss(torch.eye(4), torch.eye(4)).item()  # aligned pairs, orthogonal others
        0.0
        >>> round(loss(torch.ones(4, 2), torch.ones(4, 2)).item(), 3)  # 0.6 · 4 · 3
        7.2
    """

    def __init__(
        self,
        negative_weight: float = 0.6,
        relaxed: bool = True,
        *,
        margin: float = 0.0,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
    ):
        super().__init__()
        if not 0 <= negative_weight < float("inf"):
            raise ValueError(
                f"negative_weight is {negative_weight}; expected a finite number of at least 0."
            )
        if not -1 <= margin < 1:
            raise ValueError(f"margin is {margin}; expected a number in [-1, 1).")
        self.negative_weight = negative_weight
        self.relaxed = relaxed
        self.margin = margin
        self.chunk_size = checked_count("chunk_size", chunk_size, "anchors")
        self.gather_distributed = gather_distributed

    def forward(self, u: Tensor, v: Tensor, exclude: Tensor | None = None) -> Tensor:
        """Return the scalar loss.

        Args:
            u: (B, D) embeddings of one modality (or view); normalised by this method.
            v: (B, D) embeddings of the other modality (or view); normalised by this method.
            exclude: (B, B), or with several processes (B, columns of all), bool: which pairs u_i,
                v_j are not negatives.

        Raises:
            ValueError: if the shapes differ.
        """
        if u.dim() != 2 or u.shape != v.shape:
            raise ValueError(
                f"u and v have shapes {tuple(u.shape)} and {tuple(v.shape)}; expected both (B, D)."
            )
        with outside_autocast(u.device):
            u, v = map(unit_length, single_precision(u, v))
            everyone, rank = gathered(v, self.gather_distributed)
            keys = everyone.flatten(0, 1)
            processes = len(everyone)

            def of_rows(u: Tensor, partner: Tensor, *excluded: Tensor) -> tuple[Tensor]:
                others = (u @ keys.mT).scatter(1, partner[:, None], self.margin) - self.margin
                others = others.masked_fill(excluded[0], 0) if excluded else others
                return ((others.clamp(min=0) if self.relaxed else others).square().sum(-1),)

            partners = rank * len(u) + torch.arange(len(u), device=u.device)
            excluded = (
                () if exclude is None else (checked_shape("exclude", exclude, (len(u), len(keys))),)
            )
            (of_negatives,) = by_chunks(of_rows, self.chunk_size, u, partners, *excluded)
            distance = 1 - (u * v).sum(-1)
            return processes * (distance.square().sum() + self.negative_weight * of_negatives.sum())

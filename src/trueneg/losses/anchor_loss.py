"""The loss of an anchor, given its true-negative mass."""

import math

import torch
from torch import Tensor
from torch.nn import functional


def anchor_loss(
    log_mass: Tensor,
    positive: Tensor,
    logits: Tensor,
    targets: tuple[Tensor, Tensor] | None = None,
    decoupled: bool = False,
) -> Tensor:
    r"""Return each anchor's loss, shape (A,).

    .. math:: L = \operatorname{softplus}(\log N g - p) + (1 - T_p)\,p - \sum_n T_n u_n

    with targets T that sum to 1; without targets, :math:`T_p = 1`, and L is :math:`-\log(e^p / (e^p
    + N g))`. If decoupled, :math:`L = \log N g - T_p\,p - \sum_n T_n u_n`, or 0 if no negatives
    remain. With several positives, L is the mean over them, each alone in its softmax; with
    targets, :math:`T_p` is divided equally between them, and all of them are in the denominator.

    Args:
        log_mass: (A,) log(N·g); −∞ if no negatives remain.
        positive: (A,) or (A, P) logits p.
        logits: (A, K) logits u; where they are −∞, the target must be 0.
        targets: T_p (A,), the weight of the positive, and T_n (A, K), of the columns; None: the
            positive has all the weight.
        decoupled: whether to leave the positive out of the denominator.

    Example:
        >>> p, u = torch.tensor([0.0]), torch.tensor([[1.0, 3.0]])
        >>> anchor_loss(
        ...     u.logsumexp(1),
        ...     p,
        ...     u,
        ...     targets=(torch.tensor([0.5]), torch.tensor([[0.5, 0.0]])),
        ...     decoupled=True,
        ... )
        tensor([2.6269])
    """
    mean = positive
    if positive.dim() == 2:
        mean = positive.mean(1)
    attraction = mean
    if targets is not None:
        of_positive, of_columns = targets
        # 0 · −∞
        attraction = of_positive * mean + torch.linalg.vecdot(
            of_columns, logits.masked_fill(of_columns == 0, 0)
        )
    if decoupled:
        return (log_mass - attraction).masked_fill(log_mass == -math.inf, 0)
    if positive.dim() == 1:
        loss = functional.softplus(log_mass - positive)
        return loss if targets is None else loss + mean - attraction
    if targets is None:
        return functional.softplus(log_mass[:, None] - positive).mean(1)
    return torch.cat((positive, log_mass[:, None]), dim=1).logsumexp(1) - attraction

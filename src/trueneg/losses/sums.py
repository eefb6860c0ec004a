"""Logs of sums of exponentials, the one thing that every loss spends its time on."""

import math

import torch
from torch import Tensor


def log_weighted_sum(logits: Tensor, beta: float = 0.0, log_weight: Tensor | None = None) -> Tensor:
    r"""The log of Σ w e^u over each row, with weights w of mean 1: (A, N) → (A,).

    .. math:: \log \sum_n w_n e^{u_n},\qquad w_n = \frac{v_n e^{\beta u_n}}{\overline{v e^{\beta u}}}

    Args:
        logits: (A, N) u, each row with a finite number.
        beta: β ≥ 0.
        log_weight: log v, broadcasts to (A, N); without a gradient. None: v = 1.

    Example:
        >>> log_weighted_sum(torch.tensor([[1.0, 2.0]]).log()).exp().tolist()
        [3.0]
        >>> log_weighted_sum(torch.tensor([[1.0, 3.0]]).log(), beta=1.0).exp().round().tolist()     # w = ½ and 3/2
        [5.0]
    """
    return _LogWeightedSum.apply(logits, beta, log_weight)


def plain_log_weighted_sum(logits: Tensor, beta: float = 0.0, log_weight: Tensor | None = None) -> Tensor:
    """As :func:`log_weighted_sum`, but computed as the equation says it, for a second derivative."""
    near = beta * logits if log_weight is None else beta * logits + log_weight
    return (near + logits).logsumexp(-1) - near.logsumexp(-1) + math.log(logits.shape[-1])


class _LogWeightedSum(torch.autograd.Function):
    # The gradient, (1 + β)·softmax((1 + β)u + log v) − β·softmax(βu + log v), and the value, a difference of logs
    # of sums, are made of the same: a sum's log is the largest exponent less the log of its share. With torch's
    # logsumexp both passes compute the exponentials, in several times the time.

    @staticmethod
    def forward(ctx, logits: Tensor, beta: float, log_weight: Tensor | None) -> Tensor:
        if beta == 0 and log_weight is None:
            slope = logits.softmax(-1)
            value = logits.amax(-1).sub_(slope.amax(-1).log_())
        else:
            near = logits * beta if log_weight is None else torch.add(log_weight, logits, alpha=beta)
            share = near.softmax(-1)
            largest = None if log_weight is None else near.amax(-1)
            near += logits
            slope = near.softmax(-1)
            # The difference of two largest: the largest, if without weights.
            largest = logits.amax(-1) if log_weight is None else near.amax(-1).sub_(largest)
            value = (share.amax(-1) / slope.amax(-1)).log_().add_(largest).add_(math.log(logits.shape[-1]))
            if beta != 0:
                slope.mul_(1 + beta).sub_(share, alpha=beta)
        ctx.save_for_backward(logits, log_weight, slope)
        ctx.beta = beta
        return value

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        logits, log_weight, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted
            value = plain_log_weighted_sum(logits, ctx.beta, log_weight)
            return *torch.autograd.grad(value, logits, gradient, create_graph=True), None, None
        return slope * gradient[:, None], None, None


def masked_logsumexp(values: Tensor, left_out: Tensor) -> Tensor:
    """log Σ e^values without the entries left out; −∞ with zero gradient where none is left.

    Args:
        values: (A, N).
        left_out: (A, N) bool.

    Returns:
        (A,).
    """
    return values.masked_fill(left_out, -math.inf).logsumexp(-1)

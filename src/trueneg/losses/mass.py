"""From the sum over all negatives to the mass of the true ones, by a bracket that may be negative."""

import math

import torch
from torch import Tensor

from trueneg.losses.base import NegativeMass, unbounded


def debias(
    log_sum: Tensor,
    positive: Tensor,
    count: int,
    eta: float | Tensor,
    floor: float | Tensor | None,
    smooth_bound: bool,
) -> NegativeMass:
    r"""From the sum S over all negatives to the mass of the true ones.

    .. math:: N g = \max\Bigl(\frac{S - N \eta\, \overline{e^{p}}}{1-\eta},\; N e^{b}\Bigr)

    Args:
        log_sum: (A,) log of the (weighted) sum over the negatives.
        positive: (A,) or (A, M) logits.
        count: N.
        eta: η, a float or a tensor that broadcasts to (A,).
        floor: b, log of the lower bound of g; None: no bound, and NaN where the bracket is negative.
        smooth_bound: add bound and estimate instead of taking the larger.
    """
    if isinstance(eta, float) and eta == 0:
        return unbounded(log_sum)
    return NegativeMass(*_Debias.apply(log_sum, log_mean_exp(positive), eta, floor, count, smooth_bound))


class _Debias(torch.autograd.Function):
    # Its own function, as its gradient is simple, and exactly that of the bound where the bound holds, while
    # torch's would need a guard for each infinite value that is not used, in three times the operations.

    @staticmethod
    def forward(ctx, log_sum: Tensor, log_positive: Tensor, eta: float | Tensor, floor: float | Tensor | None, count, smooth):
        ratio = log_positive - log_sum
        if isinstance(eta, Tensor):  # e^ratio times an η of 0 is to be 0
            ratio = ratio.clamp_(max=math.log(torch.finfo(ratio.dtype).max) - 1)
            factor = ratio.exp_().mul_(-count * eta).add_(1).div_(1 - eta)  # times S: the bracket
        else:
            factor = torch.rsub(ratio.exp_(), 1 / (1 - eta), alpha=count * eta / (1 - eta))
        if floor is None:
            mass = factor.log_().add_(log_sum)
            at_bound = torch.zeros_like(mass, dtype=torch.bool)
        else:
            mass = factor.clamp_(min=0).log_().add_(log_sum)
            bound = torch.as_tensor(floor + math.log(count), dtype=mass.dtype, device=mass.device)
            at_bound = mass.isneginf() if smooth else mass < bound
            if isinstance(eta, Tensor):
                # Where η is 0 nothing was subtracted, and a sum of exponentials needs no guard: only rounding
                # could put it below the bound, and switch the anchor off.
                at_bound &= eta > 0
            mass = torch.logaddexp(mass, bound) if smooth else torch.where(at_bound, bound, mass)
        ctx.mark_non_differentiable(at_bound)
        tensors = (each if isinstance(each, Tensor) else None for each in (eta, floor))
        ctx.save_for_backward(log_sum, log_positive, mass, at_bound, *tensors)
        ctx.eta, ctx.floor, ctx.count, ctx.smooth = eta, floor, count, smooth and floor is not None
        return mass, at_bound

    @staticmethod
    def backward(ctx, gradient: Tensor, _):
        # The slopes of log N·g over log S, p, η and b, for N·g = (S − Nη e^p) / (1 − η), with + N e^b if smooth:
        # those over log S, p and b sum to 1, as a number added to all three is added to log N·g.
        log_sum, log_positive, mass, at_bound, eta, floor = ctx.saved_tensors
        eta, count = ctx.eta if eta is None else eta, ctx.count
        of_estimate = gradient.masked_fill(at_bound, 0)
        if ctx.smooth:
            of_estimate = of_estimate * (1 - ((ctx.floor if floor is None else floor) + math.log(count) - mass).exp())
        of_sum = gradient * (log_sum - mass).masked_fill(at_bound, -math.inf).exp() / (1 - eta)
        of_eta = of_floor = None
        if ctx.needs_input_grad[2]:
            of_one = gradient * (log_positive - mass).masked_fill(at_bound, -math.inf).exp() / (1 - eta)
            of_eta = ((of_sum - count * of_one) / (1 - eta)).sum_to_size(eta.shape)
        if ctx.needs_input_grad[3]:
            of_floor = (gradient - of_estimate).sum_to_size(floor.shape)
        return of_sum, of_estimate - of_sum, of_eta, of_floor, None, None


def debiased_mean(log_sum: Tensor, positive: Tensor, count: int, eta: float | Tensor) -> Tensor:
    """The bracket of :func:`debias` divided by N, without a bound, so that it may be negative; arguments as there."""
    log_mean = log_sum - math.log(count)
    return (log_mean.exp() - eta * log_mean_exp(positive).exp()) / (1 - eta)


def log_mean_exp(positive: Tensor) -> Tensor:
    """The log of the mean of e^p over the positives: (A,) or (A, M) → (A,)."""
    if positive.dim() == 1:
        return positive
    if positive.shape[-1] == 1:
        return positive.squeeze(-1)
    return positive.logsumexp(-1) - math.log(positive.shape[-1])

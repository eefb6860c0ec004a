"""The samples of all processes as negatives, with gradients."""

import torch
from torch import Tensor, distributed


def gathered(local: Tensor) -> tuple[Tensor, int]:
    """Every process's tensor, and which of them is ours; the gradient returns to the process it came from.

    Every process must call this with the same shape. The backward pass sums what all processes' losses say
    about our tensor; with DistributedDataParallel's mean over processes, the mean of the local losses then
    has the gradient of one loss over all anchors.

    Args:
        local: any shape, the same on all processes.

    Returns:
        A tensor of shape (processes, …), in the order of the ranks, and our rank. One process: itself.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return local[None], 0
    return _Gather.apply(local), distributed.get_rank()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, local: Tensor) -> Tensor:
        everyone = [torch.empty_like(local) for _ in range(distributed.get_world_size())]
        distributed.all_gather(everyone, local.contiguous())
        return torch.stack(everyone)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        # A copy, because the sum is made in place; not a reduce-scatter, which gloo lacks.
        total = gradient.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total[distributed.get_rank()]

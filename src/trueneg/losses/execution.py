"""How a loss is computed: in which precision, how many anchors at a time, on how many processes. No equation depends on it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, distributed
from torch.utils.checkpoint import checkpoint


def outside_autocast(device: torch.device) -> AbstractContextManager:
    """A context without autocast; nothing is entered where none is on, as that costs as much as several operations."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def single_precision(*tensors: Tensor) -> list[Tensor]:
    """The tensors in float32, or all in float64 if one of them is; half precision loses too much."""
    dtype = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    return [tensor.to(dtype) for tensor in tensors]


def gathered(local: Tensor, wanted: bool = True) -> tuple[Tensor, int]:
    """The tensors of all processes, shape (processes, …) in the order of the ranks, and our rank; alone: our tensor, and 0.

    Every process must call this with the same shape. The backward pass sums what the losses of all processes say about our
    tensor; with DistributedDataParallel's mean over processes, the mean of the local losses then has the gradient of one loss
    over all anchors.
    """
    if not (wanted and distributed.is_available() and distributed.is_initialized()):
        return local[None], 0
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    everyone = local.detach().new_empty(processes, *local.shape)
    distributed.all_gather(list(everyone.unbind()), local.detach().contiguous())
    if local.requires_grad:
        everyone[rank] = local  # the only part with a gradient, which the hook completes
        everyone.register_hook(_summed)
    return everyone, rank


def _summed(gradient: Tensor) -> Tensor:
    """The sum over the processes; all_reduce because gloo lacks reduce_scatter, and on a copy because it works in place."""
    total = gradient.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(total)
    return total


def checked_chunk_size(chunk_size: int | None) -> int | None:
    """The number of anchors computed at a time, or None for all.

    Raises:
        ValueError: if it is not positive.
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}, expected a positive number of anchors, or None.")
    return chunk_size


def by_chunks(compute: Callable[..., tuple[Tensor, ...]], chunk_size: int | None, *anchors: Tensor) -> tuple[Tensor, ...]:
    """``compute(*anchors)``, from tensors with a row per anchor to tensors with a row per anchor, a chunk of rows at a time.

    With a chunk size below the number of anchors, each chunk is computed again, with the same random draws, in the backward
    pass, and neither pass holds what more than one chunk needs.
    """
    if chunk_size is None or chunk_size >= len(anchors[0]):
        return compute(*anchors)
    chunks = zip(*(tensor.split(chunk_size) for tensor in anchors), strict=True)
    results = [checkpoint(compute, *chunk, use_reentrant=False) for chunk in chunks]
    return tuple(torch.cat(parts) for parts in zip(*results, strict=True))

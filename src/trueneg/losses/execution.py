"""Execution of losses: precision, chunking over anchors, and distribution over processes. None of
it affects the equations.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.utils.checkpoint import checkpoint

SHORTEST = 1e-6  # length of the shortest vector that is normalised


def outside_autocast(device: torch.device) -> AbstractContextManager:
    """Return a context that disables autocast; a null context if it is off (cheaper by several
    operations) or unavailable.
    """
    # PyTorch 2.11 cannot compile is_autocast_available; what it compiles for has autocast
    is_there = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device.type)
    is_on = is_there and torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if is_on else nullcontext()


def single_precision(*tensors: Tensor) -> list[Tensor]:
    """Convert tensors to float32, or to float64 if any of them is float64; half precision is too
    inaccurate.

    Raises:
        ValueError: if a tensor does not hold floating-point numbers.
    """
    for tensor in tensors:
        if not tensor.is_floating_point():
            raise ValueError(
                f"Embeddings or similarities have dtype {tensor.dtype}; expected floating-point"
                " numbers."
            )
    has_double = any(tensor.dtype == torch.float64 for tensor in tensors)
    dtype = torch.float64 if has_double else torch.float32
    return [tensor.to(dtype) for tensor in tensors]


@contextmanager
def in_evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Set a module to evaluation mode; afterwards, each of its parts gets its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def unit_length(vectors: Tensor) -> Tensor:
    """Return the numbers of ``torch.nn.functional.normalize(vectors, dim=-1)``, but leave vectors
    shorter than 1e-6 as they are.

    A row of zeros then gets a gradient like that of a unit vector, where normalising would multiply
    it by 1e12.
    """
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / lengths.masked_fill(lengths < SHORTEST, 1)


class PreciseBuffers(nn.Module):
    """A module whose buffers are not cast to half precision with it: what is remembered changes by
    less than half precision can tell apart.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PreciseBuffers":
        before = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)
        for name, buffer in self.named_buffers(recurse=False):
            if buffer.dtype in (torch.float16, torch.bfloat16):
                setattr(self, name, before[name].to(buffer.device))
        return self


def gathered(local: Tensor, wanted: bool = True) -> tuple[Tensor, int]:
    """Gather a tensor from all processes, shape (processes, …) in rank order; the first dimension
    is 1 if not distributed.

    Every process must call this with the same shape, which is compared on the CPU, without waiting
    for a GPU, unless the program is compiled. The backward pass sums the gradients that the losses
    of all processes produce for the local tensor. When DistributedDataParallel then averages over
    processes, the mean of the local losses has the gradient of a single loss over all anchors.

    Returns:
        The gathered tensor and the rank of this process (0 if not distributed).

    Raises:
        ValueError: on all processes, if the shapes differ; unequal parts would be mixed up, or
            waited for forever.
    """
    if not (wanted and distributed.is_available() and distributed.is_initialized()):
        return local[None], 0
    rank = distributed.get_rank()
    processes = distributed.get_world_size()
    if not torch.compiler.is_compiling():  # what follows depends on values
        _check_shapes(local, rank, processes)
    everyone = local.detach().new_empty(processes, *local.shape)
    distributed.all_gather(list(everyone.unbind()), local.detach().contiguous())
    if local.requires_grad and torch.is_grad_enabled():
        # the only part that requires a gradient; the hook adds the other processes' contributions
        everyone[rank] = local
        # a tensor of its own, because PyTorch 2.11 compiles a hook before the change in place
        everyone = everyone.view_as(everyone)
        everyone.register_hook(_summed)
    return everyone, rank


def _check_shapes(local: Tensor, rank: int, processes: int) -> None:
    """Check on all processes that their tensors have the same shape."""
    shape = torch.tensor(local.shape, dtype=torch.int64)
    shapes = [torch.empty_like(shape) for _ in range(processes)]
    distributed.all_gather(shapes, shape, group=_on_cpu(distributed.group.WORLD))
    if differing := [number for number, other in enumerate(shapes) if not other.equal(shape)]:
        sizes = {number: tuple(shapes[number].tolist()) for number in (rank, differing[0])}
        shown = " and ".join(f"{size} on process {number}" for number, size in sizes.items())
        remedy = (
            "Leave out the last, smaller batch (drop_last=True), and give every process the same"
            " batch size."
        )
        raise ValueError(
            f"gather_distributed: the tensors have shapes {shown}; expected the same on every"
            f" process. {remedy}"
        )


@functools.lru_cache(maxsize=1)
def _on_cpu(world: Any) -> Any:
    """Return a group of all processes that exchanges tensors on the CPU."""
    if "cpu:" in distributed.get_backend_config():
        return world
    return distributed.new_group(backend="gloo")


def gathered_rows(local: Tensor, count: int, wanted: bool) -> tuple[Tensor, int]:
    """Gather the rows of all processes: the first of each, then the others of each.

    Args:
        local: (B + H, …) rows of this process.
        count: B.
        wanted: whether to gather; otherwise, only this process's rows are returned.

    Returns:
        The rows, and the rank of this process.
    """
    everyone, rank = gathered(local, wanted)
    return torch.cat((everyone[:, :count].flatten(0, 1), everyone[:, count:].flatten(0, 1))), rank


def _summed(gradient: Tensor) -> Tensor:
    """Sum over the processes with all_reduce (gloo lacks reduce_scatter), on a copy because
    all_reduce works in place.
    """
    total = gradient.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(total)
    return total


def by_chunks(
    compute: Callable[..., tuple[Tensor, ...]], chunk_size: int | None, *anchors: Tensor
) -> tuple[Tensor, ...]:
    """Evaluate ``compute(*anchors)`` in chunks of rows; inputs and outputs have one row per anchor.

    If the chunk size is below the number of anchors, each chunk is recomputed in the backward pass
    with the same random draws, and neither pass keeps the intermediates of more than one chunk in
    memory.
    """
    if chunk_size is None or chunk_size >= len(anchors[0]):
        return compute(*anchors)
    chunks = zip(*(tensor.split(chunk_size) for tensor in anchors), strict=True)
    results = [checkpoint(compute, *chunk, use_reentrant=False) for chunk in chunks]
    return tuple(torch.cat(parts) for parts in zip(*results, strict=True))

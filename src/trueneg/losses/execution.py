"""How a loss is computed: in which precision, how many anchors at a time, on how many processes. No equation depends on it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import get_device_states, set_device_states

# (the anchors' own values (c, …) and what all share, by name) -> tensors of one value per anchor (c,)
Compute = Callable[..., tuple[Tensor, ...]]


def outside_autocast(device: torch.device) -> AbstractContextManager:
    """A context without autocast; nothing is entered where none is on, as that costs as much as several operations."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def single_precision(*tensors: Tensor) -> list[Tensor]:
    """The tensors in float32, or all in float64 if one of them is; half precision loses too much."""
    dtype = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    return [tensor.to(dtype) for tensor in tensors]


def gathered(local: Tensor) -> tuple[Tensor, int]:
    """The tensors of all processes, shape (processes, …) in the order of the ranks, and our rank; alone: our tensor, and 0.

    Every process must call this with the same shape. The backward pass sums what the losses of all processes say about our
    tensor; with DistributedDataParallel's mean over processes, the mean of the local losses then has the gradient of one loss
    over all anchors.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
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


def by_chunks(
    compute: Compute, chunk_size: int | None, anchors: Mapping[str, Any], shared: Mapping[str, Any]
) -> tuple[Tensor, ...]:
    """``compute(**anchors, **shared)`` for all anchors, a chunk at a time, and again in the backward pass.

    With a chunk size below the number of anchors, neither pass holds more than one chunk, and random draws are repeated in the
    backward pass. Only the first result has a gradient then, for the tensors that are given here, and no second derivative.

    Args:
        compute: gives tensors of one value per anchor.
        chunk_size: None: all anchors at once.
        anchors: by name, tensors with a row per anchor; anything else is passed on as it is.
        shared: by name, what all anchors share.

    Raises:
        ValueError: if a tensor that is not given here requires a gradient, which would be lost.
    """
    rows = {name: value for name, value in anchors.items() if isinstance(value, Tensor)}
    count = len(next(iter(rows.values())))
    if chunk_size is None or chunk_size >= count:
        return compute(**anchors, **shared)
    tensors = rows | {name: value for name, value in shared.items() if isinstance(value, Tensor)}
    constants = {name: value for name, value in (anchors | shared).items() if name not in tensors}

    def of_chunk(values: list[Tensor]) -> tuple[Tensor, ...]:
        return compute(**dict(zip(tensors, values, strict=True)), **constants)

    return _ByChunks.apply(of_chunk, chunk_size, len(rows), *tensors.values())


class _ByChunks(torch.autograd.Function):
    # torch's checkpoint would compute gradients under the autocast of whoever calls backward.

    @staticmethod
    def forward(ctx, of_chunk: Callable[[list[Tensor]], tuple[Tensor, ...]], chunk_size: int, rows: int, *tensors: Tensor):
        ctx.save_for_backward(*tensors)
        ctx.of_chunk, ctx.chunk_size, ctx.rows = of_chunk, chunk_size, rows
        ctx.random_state, ctx.device_states = torch.get_rng_state(), get_device_states(*tensors)
        results: list[Tensor] = []
        for start in range(0, len(tensors[0]), chunk_size):
            with torch.enable_grad():  # records nothing, unless there is a tensor that was not given
                values = of_chunk(_chunk([tensor.detach() for tensor in tensors], start, chunk_size, rows))
            if values[0].requires_grad:
                raise ValueError(
                    "A loss by chunks met a tensor of the estimator's own that requires a gradient, which would be lost: "
                    "give it to each call (class_probability), or set chunk_size to None."
                )
            if not results:  # allocated at once: small tensors kept between large ones fragment the heap
                results = [value.new_empty(len(tensors[0])) for value in values]
            for result, value in zip(results, values, strict=True):
                result[start : start + chunk_size] = value
        ctx.mark_non_differentiable(*results[1:])
        return tuple(results)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, *_):
        tensors, needed = ctx.saved_tensors, ctx.needs_input_grad[3:]
        totals = [torch.zeros_like(tensor) if need else None for tensor, need in zip(tensors, needed, strict=True)]
        kind = tensors[0].device.type
        # Draws and precision as in the forward pass.
        with torch.random.fork_rng(ctx.device_states[0], device_type=kind), torch.autocast(kind, enabled=False):
            torch.set_rng_state(ctx.random_state)
            set_device_states(*ctx.device_states, device_type=kind)
            for start in range(0, len(tensors[0]), ctx.chunk_size):
                values = _chunk([tensor.detach() for tensor in tensors], start, ctx.chunk_size, ctx.rows)
                wanted = [value.requires_grad_() for value, need in zip(values, needed, strict=True) if need]
                with torch.enable_grad():
                    result = ctx.of_chunk(values)[0]
                own = gradient[start : start + ctx.chunk_size]
                found = iter(torch.autograd.grad(result, wanted, own, materialize_grads=True))
                for total in _chunk(totals, start, ctx.chunk_size, ctx.rows):
                    if total is not None:
                        total += next(found)
        return None, None, None, *totals


def _chunk(tensors: list[Tensor | None], start: int, size: int, rows: int) -> list[Tensor | None]:
    """A chunk's rows of the first tensors, and the others whole."""
    return [tensor[start : start + size] if i < rows and tensor is not None else tensor for i, tensor in enumerate(tensors)]

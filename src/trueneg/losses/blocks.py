"""Values of each anchor from its row of logits, block by block: memory grows with a block, not with the batch's square."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import get_device_states, set_device_states

# (first sample of the block, its (S, c, J) logits, what is given of its anchors (S, c, …)) → values, each (S·c,)
Compute = Callable[..., tuple[Tensor, ...]]


def product(anchors: Tensor, keys: Tensor | None) -> Tensor:
    """The (S, B, J) logits: inner products of anchors (S, B, D) with keys (S, J, D); without keys, the anchors themselves."""
    return anchors if keys is None else anchors @ keys.mT


def checked_chunk_size(chunk_size: int | None) -> int | None:
    """The number of anchors that are computed at a time, or None for all.

    Raises:
        ValueError: if it is not positive.
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}, expected a positive number of anchors, or None.")
    return chunk_size


def by_blocks(compute: Compute, samples: int, anchors: Tensor, keys: Tensor | None, *given: Tensor) -> tuple[Tensor, ...]:
    """What ``compute`` says about all anchors, some samples at a time, and again in the backward pass.

    Neither pass holds more than one block. A random draw of ``compute`` is repeated as it was. The first value
    has a gradient, for all tensors that are given here, and no second derivative.

    Args:
        compute: gives values of a block's anchors.
        samples: how many samples are a block.
        anchors: (S, B, D), or logits (S, B, J); S kinds of B samples each.
        keys: (S, J, D), or None: then the anchors are logits.
        given: (S, B, …) what else ``compute`` takes of each anchor.

    Returns:
        The values of all anchors, each of shape (S·B,).

    Raises:
        ValueError: if ``compute`` uses a tensor that requires a gradient and is not given here: the gradient
            would be lost.
    """
    return tuple(values.flatten() for values in _ByBlocks.apply(compute, samples, anchors, keys, *given))


class _ByBlocks(torch.autograd.Function):
    # Not torch's checkpoint for each block: small blocks that are kept between large ones fragment the C
    # library's heap, and slices' gradients are as large as the whole.

    @staticmethod
    def forward(ctx, compute: Compute, samples: int, anchors: Tensor, keys: Tensor | None, *given: Tensor):
        ctx.save_for_backward(anchors, keys, *given)
        ctx.compute, ctx.samples = compute, samples
        ctx.random_state, ctx.device_states = torch.get_rng_state(), get_device_states(anchors)
        sides, count = anchors.shape[:2]
        results: list[Tensor] = []
        for start in range(0, count, samples):
            rows = slice(start, start + samples)
            block = product(anchors[:, rows], keys).detach()
            with torch.enable_grad():  # records nothing, unless there is a tensor that we do not know of
                values = compute(start, block, *(each[:, rows].detach() for each in given))
            if values[0].requires_grad:
                raise ValueError(
                    "A loss by blocks met a tensor of the estimator's own that requires a gradient, which would be lost: "
                    "give it to each call (class_probability), or set chunk_size to None."
                )
            if not results:
                results = [value.new_empty(sides, count) for value in values]
            for result, value in zip(results, values, strict=True):
                result[:, rows] = value.view(sides, -1)
        ctx.mark_non_differentiable(*results[1:])
        return tuple(results)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, *_):
        anchors, keys, *given = ctx.saved_tensors
        of_anchors, of_keys, *of_given = [
            torch.zeros_like(tensor) if needed else None
            for tensor, needed in zip(ctx.saved_tensors, ctx.needs_input_grad[2:], strict=True)
        ]
        # What the forward pass was made in, wherever this one is.
        devices = ctx.device_states[0]
        with torch.random.fork_rng(devices, device_type=anchors.device.type), torch.autocast(anchors.device.type, enabled=False):
            torch.set_rng_state(ctx.random_state)
            set_device_states(*ctx.device_states, device_type=anchors.device.type)
            for start in range(0, anchors.shape[1], ctx.samples):
                rows = slice(start, start + ctx.samples)
                block = product(anchors[:, rows], keys).detach().requires_grad_()
                values = [
                    each[:, rows].detach().requires_grad_(result is not None)
                    for each, result in zip(given, of_given, strict=True)
                ]
                with torch.enable_grad():
                    value = ctx.compute(start, block, *values)[0]
                inputs = [block, *(each for each in values if each.requires_grad)]
                of_block, *of_values = torch.autograd.grad(value, inputs, gradient[:, rows].flatten(), materialize_grads=True)
                if of_anchors is not None:
                    of_anchors[:, rows] = product(of_block, None if keys is None else keys.mT)
                if of_keys is not None:
                    of_keys.baddbmm_(of_block.mT, anchors[:, rows])
                for result, found in zip((each for each in of_given if each is not None), of_values, strict=True):
                    result[:, rows] = found
        return None, None, of_anchors, of_keys, *of_given

"""Checks of what users pass to the losses."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn


def is_readable(tensor: Tensor) -> bool:
    """Return whether reading a tensor's values costs nothing: on the CPU, unless the program is
    being compiled.
    """
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def checked_class_probability(value: float | Tensor | None) -> float | Tensor | None:
    """Return η unchanged if every value lies in [0, 1).

    Raises:
        ValueError: if it is neither a number nor a tensor, or a value lies outside [0, 1). Values
            that are not :func:`is_readable` become NaN instead.
    """
    if value is None:
        return None
    if not isinstance(value, Tensor):
        check_tensors(class_probability=None if isinstance(value, Real) else value)
        value = float(value)
        if not 0 <= value < 1:  # NaN fails too
            raise ValueError(
                f"class_probability is {value:g}; expected a number of at least 0 and below 1."
            )
        return value
    valid = (value >= 0) & (value < 1)
    if not is_readable(value):
        return torch.where(valid, value, math.nan)
    if not valid.all():
        wrong = value[~valid]
        raise ValueError(
            f"{wrong.numel()} of {value.numel()} values of class_probability are outside [0, 1)"
            f" (the first is {wrong.flatten()[0]:g}); expected all values to be at least 0 and"
            " below 1."
        )
    return value


def checked_number(name: str, value: float) -> float:
    """Return a value after checking that it is a number.

    Raises:
        ValueError: if it is not.
    """
    if not isinstance(value, Real):
        raise ValueError(f"{name} is {value!r}; expected a number.")
    return value


def checked_positive(name: str, value: float) -> float:
    """Return a number after checking that it is positive and finite.

    Raises:
        ValueError: if it is not.
    """
    if not 0 < checked_number(name, value) < math.inf:
        raise ValueError(f"{name} is {value!r}; expected a positive number.")
    return value


def checked_count(name: str, value: int | None, of_what: str, optional: bool = True) -> int | None:
    """Return a number of things after checking that it is a positive integer, or None if that is
    possible.

    Raises:
        ValueError: if it is neither.
    """
    if value is None and optional:
        return None
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        expected = f"a positive number of {of_what}{', or None' if optional else ''}"
        raise ValueError(f"{name} is {value!r}; expected {expected}.")
    return int(value)


def checked_choice(name: str, value: str, choices: Sequence[str]) -> str:
    """Return a value after checking that it is one of the choices.

    Raises:
        ValueError: if it is not.
    """
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(choices)}.")
    return value


def check_tensors(**values: object) -> None:
    """Check that arguments are tensors or None.

    Raises:
        ValueError: names the first argument that is something else, such as a list or an array.
    """
    for name, value in values.items():
        if not (value is None or isinstance(value, Tensor)):
            raise ValueError(f"{name} is a {type(value).__name__}; expected a tensor.")


def checked_shape(name: str, tensor: Tensor | None, shape: Sequence[int]) -> Tensor:
    """Return a required tensor after checking its shape; messages call it ``name``.

    Raises:
        ValueError: if the tensor is missing or has a different shape.
    """
    if tensor is None:
        raise ValueError(
            f"{name} is missing; the estimator needs it, as a tensor of shape {tuple(shape)}."
        )
    check_tensors(**{name: tensor})
    if tensor.shape != torch.Size(shape):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {tuple(shape)}.")
    return tensor


def reshape_scalars(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Accept scalars for a module's own parameters of shape (1,), as released CLIP models have
    them; a hook for ``register_load_state_dict_pre_hook``.
    """
    for name, parameter in module.named_parameters(recurse=False):
        value = state.get(prefix + name)
        if value is None or value.dim() > 0:
            continue
        value = value.detach().reshape(1)
        target: Any = parameter
        if hasattr(target, "device_mesh"):  # sharded by FSDP2; PyTorch itself shards no scalar
            from torch.distributed.tensor import distribute_tensor

            value = distribute_tensor(value, target.device_mesh, target.placements)
        state[prefix + name] = value


def check_index(index: Tensor, samples: int) -> None:
    """Check the numbers of samples, unless they are on an accelerator.

    Raises:
        ValueError: if one is negative, or not below the number of samples.
    """
    if is_readable(index) and len(index) and not 0 <= index.min() <= index.max() < samples:
        raise ValueError(
            f"index contains numbers from {int(index.min())} to {int(index.max())}; expected those"
            f" of {samples} samples, from 0."
        )

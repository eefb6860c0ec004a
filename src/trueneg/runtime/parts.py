"""Convert the state of an unfinished training run (modules, sums, optimiser moments) to named
tensors and back.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


def named_tensors(**parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Combine state dictionaries into one dictionary with keys ``part.name``.

    Args:
        parts: state dictionaries by name of the part.
    """
    return {
        f"{part}.{name}": value
        for part, tensors in parts.items()
        for name, value in tensors.items()
    }


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return one of the state dictionaries that :func:`named_tensors` combined.

    Example:
        >>> part_of(
        ...     {"network.a.weight": torch.zeros(1), "optimizer.0.step": torch.ones(1)}, "network"
        ... )
        {'a.weight': tensor([0.])}
    """
    return {
        name.removeprefix(f"{part}."): value
        for name, value in tensors.items()
        if name.startswith(f"{part}.")
    }


def moments_of(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's tensors with keys ``index.name``."""
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": value
        for index, moments in state.items()
        for name, value in moments.items()
    }


def load_moments(
    optimizer: torch.optim.Optimizer,
    moments: Mapping[str, Tensor],
    learning_rate: float | None = None,
) -> None:
    """Load the tensors of :func:`moments_of` into an optimiser, and optionally set its learning
    rate.

    Args:
        optimizer: optimiser with the same parameter shapes as the one the moments come from.
        moments: tensors with keys ``index.name``.
        learning_rate: learning rate for all parameter groups; None: unchanged.
    """
    parameters = [
        parameter.detach() for group in optimizer.param_groups for parameter in group["params"]
    ]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in moments.items():
        index, moment = name.split(".")
        like = parameters[int(index)]
        # Use the parameter's memory layout (channels last), as the optimiser itself would.
        laid_out = torch.empty_like(like).copy_(value) if value.shape == like.shape else value
        state.setdefault(int(index), {})[moment] = laid_out
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    if learning_rate is not None:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate

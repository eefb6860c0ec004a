"""What an unfinished training is made of, as named tensors and back: modules, sums and the optimiser's moments."""

from collections.abc import Mapping

import torch
from torch import Tensor


def named_tensors(**parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors as ``part.name``.

    Args:
        parts: state dictionaries by part.
    """
    return {f"{part}.{name}": value for part, tensors in parts.items() for name, value in tensors.items()}


def by_part(tensors: Mapping[str, Tensor], *parts: str) -> list[dict[str, Tensor]]:
    """The state dictionaries of the parts, from :func:`named_tensors`.

    Example:
        >>> by_part({"network.a.weight": torch.zeros(1), "optimizer.0.step": torch.ones(1)}, "network", "optimizer")
        [{'a.weight': tensor([0.])}, {'0.step': tensor([1.])}]
    """
    return [
        {name.removeprefix(f"{part}."): value for name, value in tensors.items() if name.startswith(f"{part}.")} for part in parts
    ]


def moments_of(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's tensors as ``index.name``."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, moments in state.items() for name, value in moments.items()}


def load_moments(optimizer: torch.optim.Optimizer, moments: Mapping[str, Tensor], learning_rate: float | None = None) -> None:
    """Give an optimiser the tensors of :func:`moments_of`, and its learning rate if one is told.

    Args:
        optimizer: of parameters like those of the optimiser that the moments come from.
        moments: tensors as ``index.name``.
        learning_rate: of all groups of parameters.
    """
    parameters = [parameter.detach() for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in moments.items():
        index, moment = name.split(".")
        like = parameters[int(index)]
        # Laid out in memory as its parameter is (channels last), as the optimiser itself would make it.
        laid_out = torch.empty_like(like).copy_(value) if value.shape == like.shape else value
        state.setdefault(int(index), {})[moment] = laid_out
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    if learning_rate is not None:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate

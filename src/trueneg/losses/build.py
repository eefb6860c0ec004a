"""From an objective's settings to its loss."""

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import nn

from trueneg.losses.contrastive import ContrastiveLoss
from trueneg.losses.cross_modal import CrossModalLoss
from trueneg.losses.registry import ESTIMATORS, WHOLE_LOSSES

OPTIONS = {"chunk_size", "gather_distributed"}  # of every loss: how it is computed, no part of an objective


def build(
    objective: Mapping[str, Any],
    *,
    temperature: float = 0.5,
    directions: str | None = None,
    chunk_size: int | None = None,
    gather_distributed: bool = False,
) -> nn.Module:
    """The loss of an objective.

    Args:
        objective: its ``name``, and the parameters of that name.
        temperature: t of a :class:`ContrastiveLoss`.
        directions: None: two views, a :class:`ContrastiveLoss`; ``"text"``, ``"image"`` or ``"both"``: two
            modalities, a :class:`CrossModalLoss`, whose calls bring their logit scale.
        chunk_size: as for these losses.
        gather_distributed: as for these losses.

    Returns:
        That loss; for the names ``infonce``, ``reco`` and ``oc``, which are no estimators, a loss that is
        called with the two embeddings and takes no notice of temperature and directions.

    Raises:
        ValueError: if the name or a parameter is unknown (the message lists the names with their
            parameters), or a value is out of its range.

    Example:
        >>> build({"name": "dcl", "class_probability": 0.1}, temperature=0.5).estimator
        Debiased(class_probability=0.1, smooth_bound=False)
        >>> build({"name": "hcl", "beta": 0.5}, directions="text").directions
        'text'
    """
    values = dict(objective)
    name = values.pop("name", None)
    if name not in ESTIMATORS | WHOLE_LOSSES:
        raise ValueError(f"The objective's name is {name!r}; known are {_known_names()}.")
    unknown = sorted(set(values) - set(parameters(name)))
    if unknown:
        raise ValueError(f"The objective {name} has no parameter {', '.join(map(str, unknown))}; known are {_known_names()}.")
    options: dict[str, Any] = {"chunk_size": chunk_size, "gather_distributed": gather_distributed}
    if name in WHOLE_LOSSES:
        return WHOLE_LOSSES[name](**values, **options)
    estimator = ESTIMATORS[name](**values)
    if directions is None:
        return ContrastiveLoss(estimator, temperature, **options)
    return CrossModalLoss(estimator, directions, **options)


def parameters(name: str) -> dict[str, Any]:
    """The parameters of a name with their defaults."""
    constructor = (ESTIMATORS | WHOLE_LOSSES)[name]
    fixed = set(constructor.keywords) if isinstance(constructor, partial) else set()
    return {
        parameter.name: parameter.default
        for parameter in inspect.signature(constructor).parameters.values()
        if parameter.name not in OPTIONS | fixed
    }


def _known_names() -> str:
    return ", ".join(f"{name} ({', '.join(parameters(name)) or 'no parameters'})" for name in ESTIMATORS | WHOLE_LOSSES)

"""From an objective's name in a config to its loss: one line an objective."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from trueneg.losses.contrastive import ContrastiveLoss
from trueneg.losses.estimators import Debiased, Estimator, Oracle, Uncorrected

ESTIMATORS: dict[str, type[Estimator]] = {
    "cl": Uncorrected,
    "dcl": Debiased,
    "oracle": Oracle,
}


def build(objective: Mapping[str, Any], *, temperature: float = 0.5) -> ContrastiveLoss:
    """The loss of an objective.

    Args:
        objective: its ``name``, and the parameters of that name.
        temperature: t of the logits.

    Raises:
        ValueError: if the name or a parameter is unknown; the message lists the names with their parameters.

    Example:
        >>> build({"name": "dcl", "class_probability": 0.1}, temperature=0.5).estimator
        Debiased(class_probability=0.1, smooth_bound=False)
    """
    parameters = dict(objective)
    name = parameters.pop("name", None)
    known = f"known are {', '.join(f'{each} ({_parameters(ESTIMATORS[each])})' for each in ESTIMATORS)}."
    if name not in ESTIMATORS:
        raise ValueError(f"The objective's name is {name!r}; {known}")
    unknown = sorted(set(parameters) - {field.name for field in fields(ESTIMATORS[name])})
    if unknown:
        raise ValueError(f"The objective {name!r} has no parameter {', '.join(map(repr, unknown))}; {known}")
    return ContrastiveLoss(ESTIMATORS[name](**parameters), temperature)


def _parameters(estimator: type[Estimator]) -> str:
    return ", ".join(field.name for field in fields(estimator)) or "no parameters"

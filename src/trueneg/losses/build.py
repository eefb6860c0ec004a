"""Build the loss that an objective's settings describe."""

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from trueneg.losses.contrastive import ContrastiveLoss
from trueneg.losses.cross_modal import CrossModalLoss
from trueneg.losses.estimators.hardness import HardnessWeighted
from trueneg.losses.estimators.sequence import Sequence
from trueneg.losses.registry import ALIASES, ESTIMATORS, WHOLE_LOSSES
from trueneg.losses.relaxed import RelaxedContrastiveLoss
from trueneg.losses.targets import RULES, Rule

# accepted by every loss; they control execution and are not part of an objective
OPTIONS = {"chunk_size", "gather_distributed"}
SCOPE = "scope"  # accepted by every estimator but Sigmoid


def build(
    objective: Mapping[str, Any],
    *,
    temperature: float = 0.5,
    directions: str | None = None,
    chunk_size: int | None = None,
    gather_distributed: bool = False,
    samples: int | None = None,
) -> ContrastiveLoss | CrossModalLoss | RelaxedContrastiveLoss:
    """Build the loss for an objective.

    Args:
        objective: mapping of the objective's ``name`` and its parameters. For an estimator, it can
            also contain ``decoupled`` (bool) and ``targets``: a mapping of a ``name`` (``onehot``,
            ``half_uniform``, ``fnc``, ``same_class``, ``softmax`` or ``wcl_one_head``) and the
            parameters of that rule in :mod:`trueneg.losses.targets`; and, for a mask, ``hardness``,
            the alpha of :class:`HardnessWeighted` for what it leaves. ``supcon`` is ``cl`` with the
            targets ``same_class``.
        temperature: t of a :class:`ContrastiveLoss`.
        directions: None for two views (:class:`ContrastiveLoss`); ``"text"``, ``"image"`` or
            ``"both"`` for two modalities (:class:`CrossModalLoss`, which takes the logit scale at
            each call).
        chunk_size: passed to the loss.
        gather_distributed: passed to the loss.
        samples: number of training samples, for losses that remember each one (``global``,
            ``glofnd``).

    Returns:
        The loss. ``reco`` and ``oc`` are complete losses rather than estimators: they are called
            with the two embeddings, and ``temperature`` and ``directions`` are ignored.

    Raises:
        ValueError: if the objective is not a mapping, the name or a parameter is unknown (the
            message lists all names and their parameters), or a value is out of range.

    Example:
        >>> build({"name": "dcl", "class_probability": 0.1}, temperature=0.5).estimator
        Debiased(class_probability=0.1)
        >>> build({"name": "hcl", "beta": 0.5}, directions="text").directions
        'text'
        >>> build(
        ...     {
        ...         "name": "cl",
        ...         "decoupled": True,
        ...         "targets": {"name": "fnc", "threshold": 0.7, "top_k": 10},
        ...     }
        ... ).target_rule
        Attracted(threshold=0.7, top_k=10)
    """
    if not isinstance(objective, Mapping):
        raise ValueError(
            f"objective is {objective!r}; expected a mapping with its name and parameters, as"
            " {'name': 'cl'}."
        )
    values = _without_alias(objective)
    name = values.pop("name", None)
    if name not in ESTIMATORS | WHOLE_LOSSES:
        raise ValueError(f"Unknown objective {name!r}; expected one of {_known_names()}.")
    decoupled = False
    hardness = 0
    targets = {"name": "onehot"}
    if name in ESTIMATORS:
        decoupled = values.pop("decoupled", False)
        hardness = values.pop("hardness", 0)
        targets = values.pop("targets", None) or targets
        if not isinstance(decoupled, bool):
            raise ValueError(f"decoupled is {decoupled!r}; expected True or False.")
        if not isinstance(targets, Mapping):
            raise ValueError(
                f"targets is {targets!r}; expected a mapping with a name, one of"
                f" {', '.join(RULES)}."
            )
    if samples is not None and "samples" in parameters(name):
        values.setdefault("samples", samples)
    _check_parameters(name, values)
    options: dict[str, Any] = {"chunk_size": chunk_size, "gather_distributed": gather_distributed}
    if name in WHOLE_LOSSES:
        return WHOLE_LOSSES[name](**values, **options)
    estimator: Any = ESTIMATORS[name](**values)
    if hardness:
        scope = values.get(SCOPE, "all")
        estimator = Sequence([estimator, HardnessWeighted(hardness, scope=scope)])
    options |= {"decoupled": decoupled, "target_rule": _rule(targets)}
    if directions is None:
        return ContrastiveLoss(estimator, temperature, **options)
    return CrossModalLoss(estimator, directions, **options)


def _without_alias(objective: Mapping[str, Any]) -> dict[str, Any]:
    """Return an objective with what its name stands for, if it is an alias.

    Raises:
        ValueError: if it has a value for that, too.
    """
    fixed = ALIASES.get(objective.get("name", ""), {})
    if wrong := [key for key in fixed if key != "name" and objective.get(key) is not None]:
        raise ValueError(
            f"Objective {objective['name']} has {wrong[0]} of its own; leave {wrong[0]} out, or use"
            f" {fixed['name']}."
        )
    return {**objective, **fixed}


def _check_parameters(name: str, values: Mapping[str, Any]) -> None:
    """Check that an objective's parameters are known, and that none is missing."""
    accepted = parameters(name)
    takes_scope = SCOPE in inspect.signature((ESTIMATORS | WHOLE_LOSSES)[name]).parameters
    unknown = sorted(set(values) - set(accepted) - ({SCOPE} if takes_scope else set()))
    if unknown:
        raise ValueError(
            f"Objective {name} has no parameter {', '.join(map(str, unknown))}; objectives:"
            f" {_known_names()}."
        )
    missing = [
        key
        for key, default in accepted.items()
        if default is inspect.Parameter.empty and key not in values
    ]
    if missing:
        raise ValueError(f"Objective {name} needs {', '.join(missing)}; expected a value.")


def parameters(name: str) -> dict[str, Any]:
    """Return the parameters of a named objective with their defaults."""
    constructor = (ESTIMATORS | WHOLE_LOSSES)[name]
    fixed = set(constructor.keywords) if isinstance(constructor, partial) else set()
    return {
        parameter.name: parameter.default
        for parameter in inspect.signature(constructor).parameters.values()
        if parameter.name not in OPTIONS | fixed | {SCOPE}
    }


def _rule(settings: Mapping[str, Any]) -> Rule | None:
    """Return the rule that computes targets; None for one-hot targets."""
    targets = dict(settings)
    name = targets.pop("name", None)
    if name not in RULES:
        raise ValueError(f"targets.name is {name!r}; expected one of {', '.join(RULES)}.")
    accepted = inspect.signature(RULES[name]).parameters
    if unknown := sorted(set(targets) - set(accepted)):
        raise ValueError(
            f"targets {name} has no parameter {', '.join(unknown)}; expected"
            f" {', '.join(accepted) or 'none'}."
        )
    return RULES[name](**targets)


def _known_names() -> str:
    return ", ".join(
        f"{name} ({', '.join(parameters(name)) or 'no parameters'})"
        for name in ESTIMATORS | WHOLE_LOSSES
    )

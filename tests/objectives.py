"""Settings of every registered objective, made from their models, so that no new objective is left out."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args, get_origin

from trueneg.specs.objectives.base import Objective
from trueneg.training.loop import TrainingRun

# A value of each setting that has no default. A new objective with another one is added here.
REQUIRED = {"class_probability": 0.05, "share": 0.1}
# Further settings that a model asks for, by its name.
GUIDED = {"TwoViewGuidedRemoval", "PairEstimatorGuidedRemoval", "TwoViewRemovedViews"}


def examples(registered: Sequence[type[Objective]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every name of every objective at its defaults, and soft targets."""
    for model in registered:
        for name in get_args(model.model_fields["name"].annotation):
            yield name, _resolved(model, name)
            if name == "cl":
                for targets, guide in (({"name": "half_uniform"}, None), ({"name": "fnc"}, {"name": "self"})):
                    yield f"{name}, targets={targets['name']}", _resolved(model, name, targets=targets, guide=guide)


def variants(registered: Sequence[type[Objective]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every objective with one setting changed, for every setting whose values are words or booleans, and every value."""
    for model in registered:
        for name in get_args(model.model_fields["name"].annotation):
            default = _resolved(model, name)
            for key, field in model.model_fields.items():
                for value in _choices(field.annotation):
                    computes_its_own_loss = name == "same_sentence" and key == "decoupled"  # refused together
                    if key != "name" and value != default[key] and not computes_its_own_loss:
                        yield f"{name}, {key}={value}", _resolved(model, name, **{key: value})


def _resolved(model: type[Objective], name: str, **changed: Any) -> dict[str, Any]:
    required = {key: REQUIRED[key] for key, field in model.model_fields.items() if field.is_required() and key != "name"}
    if model.__name__ in GUIDED or changed.get("by") == "guide":
        required["guide"] = {"name": "ema"}
    return model.model_validate({"name": name} | required | changed).model_dump()


def _choices(annotation: Any) -> list[Any]:
    """The words and booleans in an annotation; not those within nested models."""
    if annotation is bool:
        return [True, False]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return list(dict.fromkeys(choice for part in get_args(annotation) for choice in _choices(part)))


class _Updated(Exception):  # noqa: N818 (no error)
    pass


def train_one_update(training: TrainingRun) -> None:
    """Train until the first update is done; the gradients and the sums of the monitors remain."""

    def stop() -> None:
        raise _Updated

    with contextlib.suppress(_Updated):
        training.train_epoch(after_update=stop)

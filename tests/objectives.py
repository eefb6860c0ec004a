"""Settings of every registered objective, derived from the models, so that new objectives are
included.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args, get_origin

from trueneg.specs.objectives.base import Objective
from trueneg.training.loop import TrainingRun

# A value of each setting without a default. Add those of new objectives.
REQUIRED = {"class_probability": 0.05, "share": 0.1}


def examples(registered: Sequence[type[Objective]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every objective under each of its names with default settings, and with soft
    targets.
    """
    for model in registered:
        for name in get_args(model.model_fields["name"].annotation):
            yield name, _resolved(model, name)
            if name == "cl":
                for targets, guide in (
                    ({"name": "half_uniform"}, None),
                    ({"name": "fnc"}, {"name": "self"}),
                ):
                    yield (
                        f"{name}, targets={targets['name']}",
                        _resolved(model, name, targets=targets, guide=guide),
                    )


def variants(registered: Sequence[type[Objective]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every objective with one setting changed, for every value of each setting of words or
    booleans.
    """
    for model in registered:
        for name in get_args(model.model_fields["name"].annotation):
            default = _resolved(model, name)
            for key, field in model.model_fields.items():
                for value in _choices(field.annotation):
                    is_invalid = name == "same_sentence" and key in ("decoupled", "own_report")
                    is_invalid |= name == "sigmoid" and key == "decoupled"
                    is_invalid |= (key, value) == (
                        "same_text",
                        "positives",
                    ) and not model.SEVERAL_POSITIVES
                    is_default = value == default[key] or (key, value) == ("same_text", "keep")
                    if key != "name" and not is_default and not is_invalid:
                        yield f"{name}, {key}={value}", _resolved(model, name, **{key: value})


def _resolved(model: type[Objective], name: str, **changed: Any) -> dict[str, Any]:
    required = {
        key: REQUIRED[key]
        for key, field in model.model_fields.items()
        if field.is_required() and key != "name"
    }
    if model.NEEDS_GUIDE or changed.get("by") == "guide":
        required["guide"] = {"name": "ema"}
    return model.model_validate({"name": name} | required | changed).model_dump()


def _choices(annotation: Any) -> list[Any]:
    """Return the words and booleans in an annotation, without those of nested models."""
    if annotation is bool:
        return [True, False]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return list(dict.fromkeys(choice for part in get_args(annotation) for choice in _choices(part)))


class _Updated(Exception):  # noqa: N818 (not an error)
    pass


def train_one_update(training: TrainingRun) -> None:
    """Train until the first update is done; the gradients and the sums of the monitors remain."""

    def stop() -> None:
        raise _Updated

    with contextlib.suppress(_Updated):
        training.train_epoch(after_update=stop)

"""Reports of data that objectives and evaluations need, but that a study does not provide."""

from collections.abc import Iterator
from typing import Any

from trueneg.specs.guides.base import LANGUAGE_MODEL
from trueneg.specs.kinds.trained import TrainedStudy


def needs(study: TrainedStudy) -> Iterator[str]:
    """Report objectives and evaluations that need labels, boxes, prompts or known matches that the
    data do not provide.
    """
    data: Any = study.dataset
    all_needs: list[tuple[str, Any]] = [
        ("figures.overlays", getattr(study.figures, "overlays", None) and "boxes")
    ]
    for key, task in study.TASKS.items():
        all_needs.append(
            (f"evaluation.{key}", task.OPTIONAL and getattr(study.evaluation, key) and task.NEEDS)
        )
    for name, objective in study.objectives.items():
        all_needs += [(f"objectives.{name}{key}", need) for key, need in objective.needs()]
    for key, need in dict.fromkeys(all_needs):
        if need and not study.provided[need]:
            remedy = (
                "set dataset.text to a likelihood study of the same texts"
                if need == LANGUAGE_MODEL
                else "remove or change it"
            )
            yield f"{key} needs {need}, which {data.source} does not have; {remedy}"
    if "oracle" not in study.primary.model_fields_set and study.provided["known matches"]:
        yield (
            "primary.oracle is missing; expected an objective whose name is oracle, or none:"
            f" {data.source} has known matches"
        )

"""Evaluation tasks, one module each, discovered automatically in the package of their kind of
study.

A module exports the task's settings and metrics as ``TASK``. The module of the same name in
:mod:`trueneg.evaluation.images`, :mod:`~trueneg.evaluation.pairs` or
:mod:`~trueneg.evaluation.texts` implements it. A task needs no module here if it has no settings
and its metrics are plain numbers.
"""

import importlib
import pkgutil
from typing import Any

from pydantic import Field, create_model

from trueneg.specs.resources import EvaluationResources
from trueneg.specs.tasks.base import DisplayedMetric, Task
from trueneg.stats.measurement import Measurement


def _tasks(kind: str) -> dict[str, type[Task]]:
    package = importlib.import_module(f"{__name__}.{kind}")
    names = [name for _, name, _ in pkgutil.iter_modules(package.__path__)]
    return {name: importlib.import_module(f"{package.__name__}.{name}").TASK for name in names}


IMAGES = _tasks("images")
PAIRS = _tasks("pairs")
TEXTS = _tasks("texts")
_ALL = (*IMAGES.values(), *PAIRS.values(), *TEXTS.values())
METRICS: dict[str, DisplayedMetric] = {
    name: metric for task in _ALL for name, metric in task.METRICS.items()
}


def names_in_rows(tasks: dict[str, type[Task]]) -> tuple[str, ...]:
    """Return the names under which tasks appear in the rows."""
    return tuple(name for task in tasks.values() for name in task.ROWS)


def evaluation_section(name: str, doc: str, tasks: dict[str, type[Task]]) -> Any:
    """Create the model of a study's ``evaluation``: resources, and a section for each task that has
    settings.
    """
    sections: dict[str, Any] = {
        key: (task | None, Field(None, description=task.OPTIONAL))
        if task.OPTIONAL
        else (task, Field(default_factory=task))
        for key, task in tasks.items()
        if task.OPTIONAL or task.model_fields
    }
    return create_model(
        name, __base__=EvaluationResources, __doc__=doc, __module__=__name__, **sections
    )


def measured_by(study: Any) -> dict[Measurement, Task]:
    """Map each measurement in the rows of a study to its task."""
    tasks = (
        getattr(study.evaluation, key) if task.model_fields else task()
        for key, task in study.TASKS.items()
    )
    enabled = (
        task
        for task in tasks
        if task is not None and (task.NEEDS is None or study.provided[task.NEEDS])
    )
    return {measured: task for task in enabled for measured in task.rows(study)}


def comparable(study: Any) -> dict[Measurement, Task]:
    """Map measurements to tasks like :func:`measured_by`, but only where higher or lower values are
    better.
    """
    tasks = measured_by(study).items()
    return {
        measured: task
        for measured, task in tasks
        if task.METRICS[measured.metric].higher_is_better is not None
    }


def is_validated(study: Any) -> bool:
    """Return whether the measurement that variants are compared by is made on the validation
    split.
    """
    measured = study.selected_by
    return any(
        "validation" in task.splits(study, row)
        for row, task in measured_by(study).items()
        if (row.task, row.labels) == (measured.task, measured.labels)
    )

"""Evaluation tasks, one module each, discovered automatically in the package of their kind of study.

A module exports the task's settings as ``TASK``. The module of the same name in :mod:`trueneg.evaluation.images` or
:mod:`trueneg.evaluation.pairs` implements it. A task without settings whose metrics are plain numbers needs no module here.
"""

import importlib
import pkgutil
from typing import Any

from pydantic import Field, create_model

from trueneg.specs.settings import Settings
from trueneg.specs.tasks.base import Metric, Task


def _tasks(kind: str) -> dict[str, type[Task]]:
    package = importlib.import_module(f"{__name__}.{kind}")
    names = [name for _, name, _ in pkgutil.iter_modules(package.__path__)]
    return {name: importlib.import_module(f"{package.__name__}.{name}").TASK for name in names}


IMAGES, PAIRS = _tasks("images"), _tasks("pairs")
_ALL = (*IMAGES.values(), *PAIRS.values())
METRICS: dict[str, Metric] = {name: metric for task in _ALL for name, metric in task.METRICS.items()}
# Keyed by the names of task and metric in the rows.
CHANCE = {(row, metric): level for task in _ALL for row in task.ROWS for metric, level in task.CHANCE.items()}


def names_in_rows(tasks: dict[str, type[Task]]) -> tuple[str, ...]:
    """Return the names of the tasks in the rows."""
    return tuple(name for task in tasks.values() for name in task.ROWS)


def evaluation_section(name: str, doc: str, base: type[Settings], tasks: dict[str, type[Task]]) -> type[Settings]:
    """Create the model of a study's ``evaluation``: the base settings, plus a section for each task that has settings."""
    sections: dict[str, Any] = {
        key: (task | None, Field(None, description=task.OPTIONAL)) if task.OPTIONAL else (task, Field(default_factory=task))
        for key, task in tasks.items()
        if task.OPTIONAL or task.model_fields
    }
    return create_model(name, __base__=base, __doc__=doc, __module__=__name__, **sections)


def measured(evaluation: Any, tasks: dict[str, type[Task]]) -> dict[str, dict[str, list[Any]]]:
    """Map the row names of an evaluation's tasks to the values of the key columns that apply."""
    given = [getattr(evaluation, key) if task.model_fields else task() for key, task in tasks.items()]
    return {row: task.columns(row) for task in given if task is not None for row in task.ROWS}

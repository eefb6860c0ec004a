"""Runs an experiment by its name."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from trueneg.io.files import written_whole
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.theory.scores import Setting


def experiment(name: str) -> Callable[..., pd.DataFrame]:
    """The function of an experiment.

    Raises:
        ValueError: if there is none of that name.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no experiment {name!r}, expected one of {', '.join(EXPERIMENTS)}.")
    return getattr(importlib.import_module(f"trueneg.theory.{EXPERIMENTS[name]}"), name)


def run(name: str, settings: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Run an experiment with settings that all experiments share: each takes those that it knows.

    Args:
        name: of :data:`trueneg.specs.experiments.EXPERIMENTS`.
        settings: fields of :class:`trueneg.theory.Setting` and keywords of the experiments; what is left out
            has its default.

    Raises:
        ValueError: if there is no such experiment, no experiment knows a setting, or a value is out of its range.

    Example:
        >>> run("density_ratio", {"shown_class_probabilities": [0.1], "alphas": [0.9]})["similarity"].max()
        np.float64(20.0)
    """
    settings = dict(settings or {})
    process = set(inspect.signature(Setting).parameters)
    known = process.union(*(_keywords(each) for each in EXPERIMENTS))
    if unknown := sorted(set(settings) - known):
        raise ValueError(f"No experiment knows {', '.join(unknown)}; expected some of {', '.join(sorted(known))}.")
    setting = Setting(**{key: value for key, value in settings.items() if key in process})
    return experiment(name)(setting, **{key: settings[key] for key in _keywords(name) if key in settings})


def write_experiment(name: str, settings: Mapping[str, Any], path: str | Path, threads: int = 1) -> None:
    """Run an experiment, and write its frame as parquet, whole or not at all.

    Args:
        name: of :data:`trueneg.specs.experiments.EXPERIMENTS`.
        settings: as for :func:`run`.
        path: where to; folders are made.
        threads: of torch. Experiments that run side by side and take all processors each wait for each other.

    Raises:
        ValueError: as :func:`run` does.
    """
    torch.set_num_threads(threads)
    frame = run(name, settings)
    with written_whole(path) as temporary:
        frame.to_parquet(temporary, index=False)


def _keywords(name: str) -> list[str]:
    return [each.name for each in inspect.signature(experiment(name)).parameters.values() if each.kind == each.KEYWORD_ONLY]

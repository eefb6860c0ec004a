"""Experiments on the process and the figures drawn from them, by name. The Snakefile asks here: nothing heavy is imported."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueneg.io.files import written_whole

if TYPE_CHECKING:
    import pandas as pd

# Each experiment's module and function; all take a Setting, and their own sweeps by keyword.
EXPERIMENTS = {
    "class_conditional_densities": "density_experiments",
    "observation_densities": "density_experiments",
    "density_ratio": "density_experiments",
    "importance_weights": "density_experiments",
    "normalisation": "density_experiments",
    "errors_by_parameter": "error_experiments",
    "errors_by_negatives": "error_experiments",
    "errors_by_positives": "error_experiments",
    "errors_by_assumed_alpha": "error_experiments",
    "best_estimators": "error_experiments",
    "approximation_errors": "bound_experiments",
    "informative_sizes": "bound_experiments",
    "supervised_bound": "bound_experiments",
    "generalisation_terms": "bound_experiments",
    "smooth_bound": "bound_experiments",
    "protocol_numbers": "protocol_numbers",
}

# The experiment whose frame each figure of trueneg.report.theory draws, and each of its tables shows.
FIGURES = {
    "class_conditional_densities": "class_conditional_densities",
    "observation_densities": "observation_densities",
    "density_ratio": "density_ratio",
    "importance_weights": "importance_weights",
    "mean_squared_errors": "errors_by_parameter",
    "estimated_means": "errors_by_parameter",
    "bias_by_negatives": "errors_by_negatives",
    "errors_by_positives": "errors_by_positives",
    "errors_by_assumed_alpha": "errors_by_assumed_alpha",
    "best_estimators": "best_estimators",
    "approximation_errors": "approximation_errors",
    "supervised_bound": "supervised_bound",
    "generalisation_terms": "generalisation_terms",
    "smooth_bound": "smooth_bound",
}
TABLES = {
    "protocol_numbers": "protocol_numbers",
    "normalisation": "normalisation",
    "informative_sizes": "informative_sizes",
}


def experiment(name: str) -> "Callable[..., pd.DataFrame]":
    """The function of an experiment.

    Raises:
        ValueError: if there is none of that name.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no experiment {name!r}, expected one of {', '.join(EXPERIMENTS)}.")
    return getattr(importlib.import_module(f"trueneg.theory.{EXPERIMENTS[name]}"), name)


def run(name: str, settings: Mapping[str, Any] | None = None) -> "pd.DataFrame":
    """Run an experiment with settings that all experiments share: each takes those that it knows.

    Args:
        name: of :data:`EXPERIMENTS`.
        settings: fields of :class:`trueneg.theory.Setting` and keywords of the experiments; what is left out
            has its default.

    Raises:
        ValueError: if there is no such experiment, no experiment knows a setting, or a value is out of its range.

    Example:
        >>> run("density_ratio", {"shown_class_probabilities": [0.1], "alphas": [0.9]})["similarity"].max()
        np.float64(20.0)
    """
    from trueneg.theory.scores import Setting

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
        name: of :data:`EXPERIMENTS`.
        settings: as for :func:`run`.
        path: where to; folders are made.
        threads: of torch. Experiments that run side by side and take all processors each wait for each other.

    Raises:
        ValueError: as :func:`run` does.
    """
    import torch

    torch.set_num_threads(threads)
    frame = run(name, settings)
    with written_whole(path) as temporary:
        frame.to_parquet(temporary, index=False)


def _keywords(name: str) -> list[str]:
    return [each.name for each in inspect.signature(experiment(name)).parameters.values() if each.kind == each.KEYWORD_ONLY]

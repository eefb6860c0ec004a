"""Run an experiment of the theory by name."""

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from trueneg.io.files import write_tables
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.specs.stages import VERSIONS
from trueneg.theory.scores import Experiment


def run(name: str, settings: Mapping[str, Any] | None = None, **options: Any) -> pd.DataFrame:
    """Run an experiment.

    Args:
        name: a key of :data:`trueneg.specs.experiments.EXPERIMENTS`.
        settings: fields of :class:`trueneg.theory.scores.Experiment`; other fields keep their
            defaults.
        options: keyword arguments specific to this experiment, such as ``repetitions``.

    Raises:
        ValueError: if a setting is unknown or a value is out of range.

    Example:
        >>> table = run("density_ratio", {"shown_class_probabilities": [0.1], "alphas": [0.9]})
        >>> float(table["similarity"].max())
        20.0
    """
    experiments = importlib.import_module(f"trueneg.theory.{EXPERIMENTS[name]}")
    parts = getattr(experiments, name)(Experiment(**(settings or {})), **options)
    return pd.concat(parts, ignore_index=True)


def write_experiment(
    compute: str, name: str, settings: Mapping[str, Any], path: str | Path, threads: int = 1
) -> None:
    """Compute an experiment of a study of any kind, and write its data frame atomically as parquet.

    Args:
        compute: function that computes it (``module:function``), such as :func:`run`.
        name: name of the experiment.
        settings: settings that determine its result.
        path: parquet file to write.
        threads: number of torch threads.
    """
    torch.set_num_threads(threads)
    table: pd.DataFrame = pkgutil.resolve_name(compute)(name, settings)
    table.attrs["version"] = VERSIONS["simulation"]  # pandas keeps it in the file
    write_tables({path: table})

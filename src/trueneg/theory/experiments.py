"""Run an experiment of the theory by name."""

import importlib
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
        >>> run("density_ratio", {"shown_class_probabilities": [0.1], "alphas": [0.9]})[
        ...     "similarity"
        ... ].max()
        np.float64(20.0)
    """
    module = importlib.import_module(f"trueneg.theory.{EXPERIMENTS[name]}")
    parts = getattr(module, name)(Experiment(**(settings or {})), **options)
    return pd.concat(parts, ignore_index=True)


def write_experiment(
    name: str, settings: Mapping[str, Any], path: str | Path, threads: int = 1
) -> None:
    """Run an experiment and write its data frame atomically as parquet; `threads` is the number of
    torch threads.
    """
    torch.set_num_threads(threads)
    table = run(name, settings)
    table.attrs["version"] = VERSIONS["simulation"]  # pandas keeps it in the file
    write_tables({path: table})

"""The values of a study's primary measurement on each test sample of its runs."""

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame

from trueneg.data.splits import connected_groups
from trueneg.evaluation.evaluate import encoded_runs, task_package
from trueneg.evaluation.per_sample import PerSample
from trueneg.io.files import write_tables
from trueneg.specs.kinds import kind_of
from trueneg.specs.sections import Section
from trueneg.stats.measurement import Measurement
from trueneg.store.evaluations import listed_for
from trueneg.store.records import Manifest, read_json
from trueneg.store.run_store import RunStore


def measure_samples(
    *,
    measured: Mapping[str, Any],
    settings: Section,
    samples: str | Path,
    **block: Any,
) -> None:
    """Measure the runs of a manifest again with the task of one measurement, and write the value of
    each test sample.

    Args:
        measured: keys of the measurement, whose task names the module
            (:attr:`trueneg.specs.tasks.base.Task.BY_SAMPLE`).
        settings: the study's evaluation settings.
        samples: parquet file to write, with the columns ``dataset``, ``objective``, ``seed``,
            ``sample`` (its position in the source), ``cluster`` (what it must not be separated
            from), ``value`` and, of a classifier on data that may be shown, ``label`` and
            ``predicted``.
        block: further arguments of :func:`trueneg.evaluation.evaluate.encoded_runs`.

    Raises:
        UserError: if a run was imported without weights.
    """
    manifest = read_json(block["manifest"], Manifest)
    names = {key: listed_for(manifest)[key] for key in ("dataset", "objective")}
    first = RunStore(block["store"]).record(manifest["runs"][0]["id"])
    package = task_package(first["settings"])
    tasks = kind_of(first["settings"]).TASKS
    name = measured["task"].replace(" ", "_")
    if importlib.util.find_spec(f"{package}.{name}") is None:  # one of several that a module has
        name = next(key for key, task in tasks.items() if measured["task"] in task.ROWS)
    module: Any = importlib.import_module(f"{package}.{name}")
    with encoded_runs(threads=settings["threads"], **block) as encoded:
        tables = [
            table.assign(**names)
            for ready in encoded
            for table in _tables(module.measure(ready, settings), Measurement(**measured))
        ]
    write_tables({samples: pd.concat(tables, ignore_index=True)})


def _tables(measurements: Iterable[Any], wanted: Measurement) -> Iterator[DataFrame]:
    """Yield the values of a measurement on the test samples of each run."""
    for run, split, measured, value in measurements:
        if split == "test" and measured == wanted and isinstance(value, PerSample):
            # samples that share a content or a group are not independent
            clusters = connected_groups(*run.source.samples.groups.values())
            yield DataFrame(
                {
                    "seed": run.subset.seed,
                    "sample": value.samples,
                    "cluster": clusters[value.samples],
                    "value": value.values.astype(np.float64),
                    **({} if run.source.samples.restricted else value.classes),
                }
            )

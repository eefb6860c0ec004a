"""The published numbers that a study refers to, each with the corresponding measurement."""

from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from trueneg.errors import UserError
from trueneg.report.declared import primary_dataset
from trueneg.specs.kinds.trained import Published
from trueneg.stats.measurement import KEYS
from trueneg.store.rows import typed

PLACE = ["printed task", "setting", "printed metric"]  # the column of a printed table
COLUMNS = [
    "dataset",
    "objective",
    "paper",
    "table",
    "method",
    *PLACE,
    "unit",
    "printed",
    "differs",
    *KEYS,
    "value",
]
COLUMNS += ["standard_error"]
# Columns of config/published.csv that may be empty: the standard error, and our measurement except
# its task and metric.
OPTIONAL = ("standard_error", *KEYS[2:])


def published_numbers(study: Any, path: str | Path) -> DataFrame:
    """Look up every number in the published tables that a study names, in the units of our rows.

    Args:
        study: resolved study.
        path: config/published.csv; not read if the study names no table.

    Returns:
        One row per number and objective, with :data:`COLUMNS`, in the order of the file.
            ``objective`` is an objective or the label of a variant; it is null if the study has no
            such method or data set. ``printed`` is the number as the paper prints it, in its
            ``unit``; :data:`PLACE` is its column there.

    Raises:
        UserError: if the file lacks a paper, table, task, method or setting that the study names.
    """
    rows = []
    for paper in study.published:
        datasets = {setting: label for label, setting in paper.settings.items()}
        for entry in _entries(paper, path).to_dict("records"):
            divisor = 100 if entry["unit"] == "%" else 1
            dataset = datasets.get(entry["setting"]) if datasets else primary_dataset(study)
            named = [
                objective
                for objective, method in paper.methods.items()
                if method == entry["method"]
            ]
            same = [entry["method"]] if entry["method"] in study.objectives else []
            row = entry | {
                "dataset": dataset,
                "printed task": entry["task"],
                "printed metric": entry["metric"],
                "printed": entry["value"],
                "differs": paper.differs,
                "task": paper.measured_task or entry["measured_task"],
                "metric": entry["measured_metric"],
                "value": float(entry["value"]) / divisor,
                "standard_error": entry["standard_error"] / divisor,
            }
            rows += [
                row | {"objective": objective}
                for objective in (dataset and (named or same)) or [None]
            ]
    return typed(DataFrame(rows, columns=COLUMNS))


def _entries(paper: Published, path: str | Path) -> DataFrame:
    """Return the rows of config/published.csv for the tables of one paper."""
    missing: Any = dict.fromkeys(OPTIONAL, "")
    # with all printed digits
    table = pd.read_csv(path, keep_default_na=False, na_values=missing, dtype={"value": str})
    filters = {
        "paper": [paper.paper],
        "table": paper.tables,
        "task": [paper.task] if paper.task else [],
    }
    wanted = filters | {"method": paper.methods.values(), "setting": paper.settings.values()}
    for column, names in wanted.items():
        values = dict.fromkeys(table[column])
        for name in names:
            if name not in values:
                raise UserError(
                    f"{path}: no row for {paper.paper} has the {column} {name!r}; expected one of: "
                    f"{', '.join(map(repr, values))}. Correct `published` in the study."
                )
        if names and column in filters:
            table = table[table[column].isin(names)]
    return table

"""The measurement key: the columns that identify what a row measures."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd


class Measurement(NamedTuple):
    """The key columns of a row; None if a column does not apply.

    Attributes:
        task: evaluation task, such as ``"knn"``.
        metric: plain name of the metric, such as ``"accuracy"`` or ``"R"``.
        labels: training images whose labels are used; for retrieval, the definition of relevance.
        fraction: share of these labels, in (0, 1].
        direction: retrieval direction, such as ``"text to image"``.
        k: length of the retrieved list.
        group: a class, or a group of classes such as ``"rare"``.
    """

    task: str
    metric: str
    labels: str | None = None
    fraction: float | None = None
    direction: str | None = None
    k: int | None = None
    group: str | None = None

    @classmethod
    def of(cls, row: Mapping[Any, Any] | pd.Series) -> "Measurement":
        """Create a measurement from a row; columns that do not apply contain None or NaN."""
        values: dict[str, Any] = {key: None if pd.isna(row[key]) else row[key] for key in KEYS}
        return cls(**values | {"k": None if values["k"] is None else int(values["k"])})

    def rows_of(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of this measurement; the result may be empty."""
        for column, value in zip(KEYS, self, strict=True):
            table = with_value(table, column, value)
        return table


KEYS = list(Measurement._fields)


def with_value(table: pd.DataFrame, column: str, value: str | float | None) -> pd.DataFrame:
    """Return the rows with the given value in a column; None selects null values."""
    return table[table[column].isna() if value is None else table[column].eq(value).fillna(False)]


def measurements(table: pd.DataFrame) -> list[Measurement]:
    """List the measurements in a table, in order of appearance."""
    return [Measurement.of(row) for row in table[KEYS].drop_duplicates().to_dict("records")]


def by_measurement(table: pd.DataFrame) -> dict[tuple[str, Measurement], pd.DataFrame]:
    """Group rows by data set and measurement, in order of appearance."""
    groups: Any = table.groupby(["dataset", *KEYS], sort=False, dropna=False)
    return {
        (dataset, Measurement.of(dict(zip(KEYS, keys, strict=True)))): group
        for (dataset, *keys), group in groups
    }

"""The common schema of rows: each row is one measured number of a study, with its metric and its
run.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pandas import DataFrame

from trueneg.stats.measurement import KEYS
from trueneg.store import records

# Names that describe a run; condition and variant hold the swept settings of the data set and the
# objective, as canonical JSON.
NAMES = ["study", "dataset", "condition", "objective", "variant"]
IDENTITY = [*NAMES, "seed", "run"]
COLUMNS = [*IDENTITY, "split", *KEYS, "value"]
TYPES = dict.fromkeys(COLUMNS, "str") | {
    "seed": "int64",
    "fraction": "float64",
    "k": "Int64",
    "value": "float64",
}


def to_table(rows: Iterable[dict[str, Any]] | DataFrame) -> DataFrame:
    """Convert rows to a table with all :data:`COLUMNS`, cast to their types; missing values are
    null.
    """
    return typed(DataFrame(rows).reindex(columns=COLUMNS))


def typed(table: DataFrame) -> DataFrame:
    """Cast a table's columns to their types in :data:`TYPES`, even if all values are null."""
    return table.astype({column: kind for column, kind in TYPES.items() if column in table})


def load_rows(path: str | Path) -> DataFrame:
    """Read rows.

    Raises:
        UserError: if the file is missing, damaged, or lacks a column.
    """
    return records.read_rows(path, COLUMNS).pipe(typed)

"""Read CSV and parquet tables provided by the user, and validate their columns and values."""

import csv
import gzip
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from trueneg.data.mistakes import refuse
from trueneg.errors import UserError
from trueneg.io.reading import reading


class Values(NamedTuple):
    """Allowed values of a column.

    Attributes:
        pattern: a regular expression that must match the whole text of a value.
        expected: description of the pattern, for messages.
        unique: whether all values must be distinct.
    """

    pattern: str
    expected: str
    unique: bool = False


NUMBER = Values(r"\d+", "a number")


def read_columns(
    path: str | Path, columns: Mapping[str, Values | None] | Iterable[str], origin: str | None = None
) -> pd.DataFrame:
    """Read columns of a CSV file (UTF-8, comma-separated) or parquet file without converting their values.

    Args:
        path: file ending in ``.csv``, ``.csv.gz`` or ``.parquet``.
        columns: names of the columns, optionally with their allowed values.
        origin: for a file of a known dataset, a sentence on where to get a complete copy, used as the remedy in every error
            message; None for the user's own files.

    Returns:
        The columns with unconverted values (str for a CSV file). The index describes the location of each row: ``line 2`` in a
        CSV file (the header is line 1), ``row 0 (the first is 0)`` in a parquet file.

    Raises:
        UserError: if the file is missing or damaged, lacks a column, or has a row with an invalid value or with more or fewer
            fields than the header.
    """
    path, expected = Path(path), dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
    if not path.is_file():
        remedy = origin or "Check the file name."
        raise UserError(f"{path} does not exist; expected a table with the columns {', '.join(expected)}. {remedy}")
    if not path.name.endswith((".csv", ".csv.gz", ".parquet")):
        raise UserError(f"{path} is not a .csv, .csv.gz or .parquet file; expected a table in one of these formats.")
    with reading(path, "a table", origin or "Copy it again; CSV files must be UTF-8."):
        table = (_read_parquet if path.suffix == ".parquet" else _read_csv)(path, list(expected), origin)
    mistakes = []
    for column, values in expected.items():
        if values is not None:
            mistakes += wrong_values(table, column, ~table[column].str.fullmatch(values.pattern), values.expected)
            if values.unique:
                mistakes += repeated_values(table, column)
    refuse([f"{path}: {mistake} {origin or ''}".rstrip() for mistake in mistakes])
    return table


def read_lines(path: Path, pattern: str, expected: str, origin: str, *, header: int = 0) -> pd.DataFrame:
    """Match each line against a pattern and return the named groups, indexed by line; blank lines and the header are skipped.

    Args:
        path: text file (UTF-8).
        pattern: a regular expression for a whole line.
        expected: description of the pattern, for messages.
        origin: a sentence on where to get a complete copy.
        header: number of header lines.

    Raises:
        UserError: if the file is not text, or if lines do not match (the error lists them).
    """
    with reading(path, "text", origin):
        lines = path.read_text(encoding="utf-8").split("\n")
    numbered = {f"line {number:,}": line.rstrip("\r") for number, line in enumerate(lines, 1) if line.strip() and number > header}
    fields = pd.Series(numbered, dtype=object).str.extract(rf"\A(?:{pattern})\Z")
    refuse([f"{path}: {place} is not {expected}. {origin}" for place in fields.index[fields.iloc[:, 0].isna()]])
    return fields


def wrong_values(
    table: pd.DataFrame, column: str, wrong: pd.Series | np.ndarray, expected: str, *, restricted: bool = False
) -> list[str]:
    """Return one message per row with an invalid value in a column; the table's index gives the location.

    Values of restricted tables are not shown, unless empty: a column named in the configuration by mistake may contain anything.
    """
    values = table.loc[wrong, column].map(lambda value: "a restricted value" if restricted and value != "" else repr(value))
    return [f"{place}: {column} is {value}; expected {expected}." for place, value in values.items()]


def repeated_values(table: pd.DataFrame, column: str) -> list[str]:
    """Return one message per row that repeats a value of an earlier row in a column."""
    return [f"{place}: {column} repeats the value of an earlier row." for place in table.index[table[column].duplicated()]]


def _read_parquet(path: Path, columns: Sequence[str], origin: str | None) -> pd.DataFrame:
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        _require(columns, parquet.schema_arrow.names, path, origin)
        table = parquet.read(columns=list(columns))
    # Convert via Python objects: pandas would turn an integer column with a missing value into floats.
    frame = pd.DataFrame({name: pd.Series(table.column(name).to_pylist(), dtype=object) for name in columns})
    return frame.set_axis([f"row {number:,} (the first is 0)" for number in range(len(frame))])


def _read_csv(path: Path, columns: Sequence[str], origin: str | None) -> pd.DataFrame:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        header = next(reader, [])
        _require(columns, header, path, origin)
        rows, line = {}, reader.line_num + 1
        for row in reader:
            if row and len(row) != len(header):
                remedy = origin or "Enclose text that contains a comma or a quotation mark in quotation marks."
                problem = f"has {len(row)} fields; expected {len(header)}, as in the header"
                raise UserError(f"{path}: line {line:,} {problem}. {remedy}")
            if row:
                rows[f"line {line:,}"] = [row[header.index(name)] for name in columns]
            line = reader.line_num + 1  # a quoted row may span several lines
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(columns), dtype=object)


def _require(columns: Sequence[str], present: Sequence[str], path: Path, origin: str | None) -> None:
    wrong = [name for name in columns if list(present).count(name) != 1]
    if wrong:
        remedy = origin or "Rename the columns, or set their names in the config."
        available = ", ".join(present) or "none"
        raise UserError(f"{path}: expected exactly one column for each name: {', '.join(wrong)} (found {available}). {remedy}")

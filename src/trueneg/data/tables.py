"""Read the user's tables as text, the same in every format, and validate their columns, values and
rows.
"""

import datetime
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from pandas import DataFrame, Series

from trueneg.data.cells import several_labels, split_names
from trueneg.data.mistakes import COPY_AGAIN, refuse
from trueneg.data.skipping import Skipped
from trueneg.data.table_formats import Reading, UnreadableTableError, plain, read_cells
from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.legible import counted
from trueneg.specs.sections import Section


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


EXAMPLES = 3  # places that a message names
OBJECTS = {"list", "dict", "bytes"}  # types of which no text can be made
NUMBER = Values(r"\d+", "a number")
# Expected instead of a list in a column of texts.
ONE_TEXT = "one text, but it is a list; give each text its own row, as pandas' explode does"
as_json = json.JSONEncoder(ensure_ascii=False).encode
# An id that a spreadsheet or a float column rounded, so that different ids may have become equal.
ROUNDED = re.compile(r"-?\d(\.\d+)?[eE]\+\d+|-?\d{16,}\.0+")


def read_columns(
    path: str | Path,
    columns: Mapping[str, Values | None] | Iterable[str] | None,
    origin: str | None = None,
    *,
    texts: Collection[str] = (),
    restricted: bool = False,
) -> DataFrame:
    """Read columns of a table as text, which is the same whichever format the table has, as
    :func:`read_table` does.
    """
    return read_table(path, columns, origin, texts=texts, restricted=restricted).cells


def read_table(
    path: str | Path,
    columns: Mapping[str, Values | None] | Iterable[str] | None,
    origin: str | None = None,
    *,
    texts: Collection[str] = (),
    restricted: bool = False,
) -> Reading:
    """Read columns of a table as text, and account for its lines and other columns.

    The file name tells the format: CSV, TSV, JSON lines (one object per line), or parquet; all but
    the last may be compressed with gzip. Text is UTF-8, or UTF-16 with a byte-order mark. Missing
    values (null, NaN, absent keys) become empty; :mod:`trueneg.data.cells` says what text means.
    Numbers, dates and booleans become text as Python and pandas write them. Names of columns may
    differ from the requested ones in surrounding spaces, invisible characters and Unicode form.

    Args:
        path: the file.
        columns: names of the columns, optionally with their allowed values; None: all columns but
            those with objects, bytes, and lists of anything but texts.
        origin: for a file of a known dataset, a sentence on where to get a complete copy, used as
            the remedy in every error message; None for the user's own files.
        texts: columns that must contain text, not numbers, in formats with types; lists of texts
            become JSON.
        restricted: whether the table is confidential.

    Returns:
        The cells are str columns. Their index describes the location of each row: ``line 2`` (the
        header of a CSV file is line 1), or ``row 0 (the first is 0)`` in a parquet file.

    Raises:
        UserError: if the file is missing or damaged, lacks a column, or has a row with an invalid
            value or with more or fewer fields than the header.
    """
    path = Path(path).expanduser()
    expected = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns or ())
    if not path.is_file():
        raise UserError(
            f"{path} {'is not a file' if path.exists() else 'does not exist'}; expected a table."
            f" {origin or 'Check the file name.'}"
        )
    with reading(path, "a table", origin or COPY_AGAIN):
        try:
            as_read = read_cells(path, None if columns is None else list(expected), restricted)
        except UnreadableTableError as error:
            problem, remedy = error.args
            raise UserError(f"{path}: {problem}. {origin or remedy}") from error
    cells = as_read.cells
    names = list(map(str, cells))
    may_list = names if columns is None else texts
    content = {
        name: [_list_as_json(value) if name in may_list else value for value in cells[name]]
        for name in names
    }
    types = {
        name: min(kinds)
        for name in (names if columns is None else ())
        if (kinds := OBJECTS.intersection(type(value).__name__ for value in content[name]))
    }
    written = {
        name: [_written(value, name in texts) for value in content[name]]
        for name in names
        if name not in types
    }
    table = DataFrame(written, cells.index, dtype=object)
    mistakes = [
        f"{place}: {column} is not text but {type(value).__name__}, or has a null or half a"
        " character (a lone surrogate); save it as text."
        for column in table
        for place, value in cells[column][table[column].isna()].items()
    ]
    refuse_rows(path, mistakes, origin)
    for column, values in expected.items():
        if values is None:
            continue
        wrong = ~table[column].str.fullmatch(values.pattern)
        mistakes += wrong_values(table, column, wrong, values.expected)
        if values.unique:
            mistakes += repeated_values(table, column)
    refuse_rows(path, mistakes, origin)
    return as_read._replace(cells=table, types=types)


class Rows:
    """Rows of the user's own table: incomplete ones are left out on request (``skip_incomplete``),
    all other mistakes refused.

    Args:
        file: the table.
        table: its rows, from :func:`read_columns`.
        settings: ``skip_incomplete`` and ``restricted``, false if absent.

    Attributes:
        table: the rows that have not been left out.
        mistakes: messages about rows that cannot be used, by kind.
    """

    def __init__(self, file: str | Path, table: DataFrame, settings: Section):
        self.file = file
        self.table = table
        self.restricted = settings.get("restricted", False)
        self.skipped = Skipped(file, len(table), "rows", settings.get("skip_incomplete", False))
        self.mistakes: list[list[str]] = []
        if table.empty:
            raise UserError(
                f"{file} has no rows (below its header, if it has one); expected at least one."
            )

    def __getitem__(self, column: str) -> Series:
        return self.table[column]

    def check(self, column: str, wrong: Series, expected: str, kind: str = "") -> None:
        """Report the rows with wrong values in a column, or skip them if their kind may be skipped;
        later checks ignore those.
        """
        if kind and self.skipped.allowed:
            places = f" ({first_places(self.table[wrong])})" if wrong.any() else ""
            self.skipped.add(f"{kind}{places}", int(wrong.sum()))
            self.table = self.table[~wrong]
        else:
            self.mistakes.append(
                wrong_values(self.table, column, wrong, expected, restricted=self.restricted)
            )

    def check_ids(self, column: str, expected: str, kind: str) -> None:
        """Skip or report rows without an id, and report rounded ids."""
        self.check(column, self[column] == "", expected, kind)
        self.check_rounded(column)

    def check_rounded(self, column: str) -> None:
        """Report rounded ids."""
        self.check(
            column,
            self[column].str.fullmatch(ROUNDED),
            "all digits of the id, which a spreadsheet or a column of floats rounded; save ids as"
            " text",
        )

    def usable(self) -> tuple[DataFrame, str]:
        """Return the usable rows, and a sentence about those left out (empty if none).

        Raises:
            UserError: lists the mistakes, or says that more rows are left out than
                ``skip_incomplete`` allows.
        """
        self.skipped.check()
        refuse(
            *([f"{self.file}: {message}" for message in kind] for kind in self.mistakes), shown=2
        )
        return self.table, self.skipped.sentence()


class Lines(NamedTuple):
    """Layout of a text file with one row per line.

    Attributes:
        pattern: a regular expression for a whole line, with named groups.
        expected: description of the pattern, for messages.
        header: number of header lines.
    """

    pattern: str
    expected: str
    header: int = 0


def read_lines(path: Path, layout: Lines, origin: str) -> DataFrame:
    """Match each line against a pattern and return the named groups, indexed by line; blank lines
    and the header are skipped.

    Args:
        path: text file (UTF-8).
        layout: layout of its lines.
        origin: a sentence on where to get a complete copy.

    Raises:
        UserError: if the file is not text, or if lines do not match (the error lists them).
    """
    with reading(path, "text", origin):
        lines = path.read_text(encoding="utf-8").split("\n")
    numbered = {
        f"line {number:,}": line.rstrip("\r")
        for number, line in enumerate(lines, 1)
        if line.strip() and number > layout.header
    }
    fields = Series(numbered, dtype=object).str.extract(rf"\A(?:{layout.pattern})\Z")
    wrong = fields.index[fields.iloc[:, 0].isna()]
    refuse_rows(path, [f"{place} is not {layout.expected}." for place in wrong], origin)
    return fields


def wrong_values(
    table: DataFrame, column: str, wrong: Series, expected: str, *, restricted: bool = False
) -> list[str]:
    """Return one message per row with an invalid value in a column; the table's index gives the
    location.

    Values of restricted tables are not shown, unless empty: a column named in the configuration by
    mistake may contain anything.
    """
    return [
        f"{place}: {column} is"
        f" {'a restricted value' if restricted and value != '' else repr(value)}; expected"
        f" {expected}."
        for place, value in table.loc[wrong, column].items()
    ]


def required_splits(
    file: str | Path, column: str, cells: Series, restricted: bool = False
) -> Series:
    """Return the split of each row, empty if it is missing.

    Raises:
        UserError: if the column has no splits; without its values if the table is restricted.
    """
    splits = split_names(column, cells, is_chosen=True)
    if splits is None:
        values = "other values" if restricted else f"the values {', '.join(sorted(set(cells))[:5])}"
        raise UserError(
            f"{file}: {column} has {values}; expected train, test and, if there are such"
            " rows, validation. Correct them, or choose no column of splits."
        )
    return splits


def refuse_several_labels(
    file: str | Path, column: str, names: Iterable[str], restricted: bool = False
) -> None:
    """Refuse labels that look like several ones; without an example if the table is restricted."""
    if several := several_labels(names):
        example = "" if restricted else f", such as {several[0]!r}"
        raise UserError(
            f"{file}: {column} looks like several labels in a cell{example}"
            f" ({counted(len(several), 'label')} like this); expected one label per row. Choose one"
            " of them for each row, or another column."
        )


def places_of(path: str | Path, columns: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the first row of a table that has each text, or has it as a part, in some columns."""
    table = read_columns(path, columns).apply(single_spaced)
    places = []
    for text in single_spaced(Series(texts, dtype=object)):
        has_text = table.apply(lambda cells, text=text: cells.str.contains(text, regex=False))
        places += [f"{path}, {place}" for place in table.index[has_text.any(axis=1)][:1]]
    return places


def about_missing(negatives: Series) -> str:
    """Return a sentence about rows with fewer hard negatives than others, given how many each has;
    empty if there are none.
    """
    is_short = negatives < negatives.max()
    if not is_short.any():
        return ""
    places = first_places(negatives[is_short])
    return (
        f"Rows with fewer than {negatives.max()} hard negatives: {is_short.sum():,}, of which"
        f" {(negatives == 0).sum():,} have none ({places}); nothing takes their place."
    )


def first_places(rows: DataFrame | Series) -> str:
    """Return the places of the first rows, for messages."""
    return ", ".join(map(str, rows.index[:EXAMPLES]))


def single_spaced(texts: Series) -> Series:
    """Replace each run of white space in texts by one space."""
    return texts.str.split().str.join(" ")


def require_distinct(section: str, columns: Sequence[str]) -> None:
    """Refuse a column that the settings of a section use for several purposes."""
    if len(set(map(plain, columns))) < len(columns):
        raise UserError(
            f"{section}: the columns are {', '.join(columns)}; expected a different column for each"
            " purpose."
        )


def refuse_rows(file: str | Path, mistakes: Iterable[str], origin: str | None = None) -> None:
    """Raise an error that lists mistakes in rows of a file, each with the remedy; do nothing if
    there are none.
    """
    refuse([f"{file}: {mistake} {origin or ''}".rstrip() for mistake in mistakes])


def repeated_values(table: DataFrame, column: str) -> list[str]:
    """Return one message per row that repeats a value of an earlier row in a column."""
    return [
        f"{place}: {column} repeats the value of an earlier row."
        for place in table.index[table[column].duplicated()]
    ]


def cell_text(value: object) -> str:
    """Return a value of any format as the text of a cell; empty if it is missing or has none."""
    return _written(_list_as_json(value), False) or ""


def _list_as_json(value: object) -> object:
    """Return a list of texts as JSON, empty without texts, and anything else as it is. Nulls in it
    are no texts, and numbers among texts are texts.
    """
    if not isinstance(value, list):
        return value
    present = [each for each in value if each is not None]
    has_texts = not present or any(isinstance(each, str) for each in present)
    if not has_texts or not all(isinstance(each, str | int | float) for each in present):
        return value
    return as_json(list(map(str, present))) if present else ""


def _is_valid(text: str) -> bool:
    """Return whether a text has no null and no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _written(value: object, is_text: bool) -> str | None:
    """Return a value as Python and pandas write it to a CSV file, empty if missing; None if it is
    not valid text but must be.
    """
    if value is None or value is pd.NA or value != value:
        return ""
    if isinstance(value, str):
        return value if _is_valid(value) else None
    if is_text or not isinstance(value, (bool, int, float, Decimal, datetime.date, datetime.time)):
        return None
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)

"""Formats of tables: CSV and TSV, JSON lines, parquet. Each reader returns the unconverted values
of the requested columns.
"""

import codecs
import csv
import gzip
import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from pandas import DataFrame

from trueneg.io.reading import reason

INVISIBLE = "\u200b\u200e\u200f\u2060\ufeff"  # zero-width characters that come with copied text
SPACE = "".join(filter(str.isspace, map(chr, range(0x3001)))) + INVISIBLE

# returns the positions of the requested columns among the names of all columns
Places = Callable[[Sequence[str]], list[int]]

# by default, csv refuses cells of more than 131,072 characters
csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


class UnreadableTableError(Exception):
    """A table cannot be read; the arguments are the problem and a sentence with the remedy."""


def plain(text: str) -> str:
    """Return a name in Unicode's composed form, with single spaces, and without surrounding spaces
    and invisible characters.

    Example:
        >>> plain("Cafe\\u0301\\u00a0 1\\u200b ") == "Caf\\u00e9 1"
        True
    """
    return " ".join(
        unicodedata.normalize("NFC", text).translate(dict.fromkeys(map(ord, INVISIBLE))).split()
    )


def read_cells(path: Path, columns: Sequence[str] | None, restricted: bool) -> DataFrame:
    """Read the columns of a table, indexed by the location of each row.

    Args:
        path: the file.
        columns: names of the columns; None: all.
        restricted: whether to hide the names of other columns, which are values if the file has no
            header.

    Raises:
        UnreadableTableError: if the format is unsupported, a column is missing, or a row cannot be
            read.
    """
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    names: list[str] = []

    def places(present: Sequence[str]) -> list[int]:
        if columns is None and len(present) == 1 and ";" in present[0]:
            raise UnreadableTableError(
                f"has one column, {plain(present[0])}",
                "Separate columns with commas (.csv) or tabs (.tsv).",
            )
        names.extend(columns if columns is not None else map(plain, present))
        return _places(names, restricted, present)

    if ending == ".parquet":
        rows = _parquet_rows(path, places)
    elif ending in (".jsonl", ".ndjson"):
        rows = _json_rows(_text(path), places)
    elif ending in (".csv", ".tsv"):
        rows = _delimited_rows(_text(path), "\t" if ending == ".tsv" else ",", places)
    else:
        raise UnreadableTableError(
            "is not in a supported format; expected .csv, .tsv, .jsonl, .ndjson (also as .gz) or"
            " .parquet",
            "Convert or rename it.",
        )
    return DataFrame.from_dict(dict(rows), orient="index", columns=names, dtype=object)


def _places(columns: Sequence[str], restricted: bool, present: Sequence[str]) -> list[int]:
    """Return the position of each column among those of the file, whose names may differ as
    :func:`plain` describes.
    """
    names = list(map(plain, present))
    wanted = list(map(plain, columns))
    wrong = [column for column, name in zip(columns, wanted, strict=True) if names.count(name) != 1]
    if wrong:
        asked, found = (
            ", ".join(name or "an empty name" for name in some) for some in (wrong, names)
        )
        listed = f"{len(names)} names" if restricted else found or "none"
        raise UnreadableTableError(
            f"expected exactly one column for each name: {asked} (found {listed})",
            "Rename the columns, set their names in the config, or separate them with commas (.csv)"
            " or tabs (.tsv).",
        )
    return list(map(names.index, wanted))


def _text(path: Path) -> str:
    """Return the text of a file, compressed or not."""
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = content.decode("utf-16" if is_utf16 else "utf-8-sig", errors="surrogateescape")
    # null, or how Python represents a byte that is not UTF-8
    if wrong := re.search("[\0\udc80-\udcff]", text):
        line = len(re.findall("\r\n?|\n", text[: wrong.start()])) + 1
        raise UnreadableTableError(
            f"line {line:,} is not UTF-8 or has a null byte; expected text in UTF-8, or UTF-16 with"
            " a byte-order mark",
            "Export it again in UTF-8, and correct damaged characters.",
        )
    return text


def _delimited_rows(
    text: str, separator: str, places: Places
) -> Iterator[tuple[str, Sequence[object]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    line = 1
    try:
        header = next(filter(None, reader), [])
        wanted = places(header)
        line = reader.line_num + 1
        for row in reader:
            if row and len(row) != len(header):
                problem = (
                    f"line {line:,} has {len(row)} fields; expected {len(header)}, as in the header"
                )
                raise UnreadableTableError(
                    problem,
                    "Enclose text that contains the separator in quotation marks; end no line with"
                    " a separator.",
                )
            if row:
                yield f"line {line:,}", [row[place] for place in wanted]
            line = reader.line_num + 1  # a quoted row may span several lines
    except csv.Error as error:
        problem = (
            f"line {line:,}: the quotation marks in the row that begins here do not match ({error})"
        )
        raise UnreadableTableError(
            problem, "Close each quoted text, and double the quotation marks in it."
        ) from error


def _json_rows(text: str, places: Places) -> Iterator[tuple[str, Sequence[object]]]:
    rows: dict[str, dict[str, object]] = {}
    for number, line in enumerate(io.StringIO(text, newline=""), 1):
        try:
            row = json.loads(line, object_pairs_hook=_distinct) if line.strip() else {}
            if not isinstance(row, dict):
                raise ValueError(f"it is a {type(row).__name__}")
        except (ValueError, RecursionError) as error:
            raise UnreadableTableError(
                f"line {number:,} is not a JSON object ({reason(error)})",
                'Write one object per line, such as {"image": "1.png", "text": "No edema."}.',
            ) from error
        if line.strip():
            rows[f"line {number:,}"] = row
    present = list(dict.fromkeys(name for row in rows.values() for name in row))
    names = [present[place] for place in places(present)]
    return ((place, [row.get(name) for name in names]) for place, row in rows.items())


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object with plain keys; refuse a repeated key, whose values would replace each
    other.
    """
    row = {plain(name): value for name, value in pairs}
    if len(row) < len(pairs):
        raise ValueError("it has the same key twice")
    return row


def _parquet_rows(path: Path, places: Places) -> Iterator[tuple[str, Sequence[object]]]:
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        present = parquet.schema_arrow.names
        names = [present[place] for place in places(present)]
        table = parquet.read(columns=names)
    # Convert via Python objects: pandas would turn an integer column with a missing value into
    # floats.
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return ((f"row {number:,} (the first is 0)", row) for number, row in enumerate(rows))

"""Formats of tables: CSV and TSV, JSON lines, parquet. Each reader returns the unconverted values
of the requested columns.
"""

import codecs
import contextlib
import csv
import functools
import gzip
import io
import itertools
import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from pandas import DataFrame

from trueneg.io.reading import reason

INVISIBLE = "\u200b\u200e\u200f\u2060\ufeff"  # zero-width characters that come with copied text
DECLARED = r"\"?sep=([,;|\t])\"?\s*\Z"  # how spreadsheets name the separator
CLOSE_QUOTES = "Close each quoted text, and double the quotation marks in it."
SPACE = "".join(filter(str.isspace, map(chr, range(0x3001)))) + INVISIBLE

# returns the positions of the requested columns among the names of all columns
Places = Callable[[Sequence[str]], list[int]]
Cells = Iterator[tuple[str, Sequence[object]]]
# returns the cells of the requested columns of a file that has been parsed
Choose = Callable[[Places], Cells]

# what was parsed in a block of :func:`parsed_once`
_PARSED: ContextVar[dict[Path, tuple[Choose, Counter[str]]] | None] = ContextVar(
    "parsed", default=None
)

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
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(dict.fromkeys(map(ord, INVISIBLE)))
    return " ".join(text.split())


_key = functools.lru_cache(1_024)(plain)  # of the same few columns in every row


class Reading(NamedTuple):
    """What was read of a table.

    Attributes:
        cells: the columns, indexed by the location of each row.
        lines: number of lines of the file that are no row of their own, by what they are.
        types: the type of the columns that are left out because no text can be made of it, by name.
    """

    cells: DataFrame
    lines: Counter[str]
    types: Mapping[str, str] = {}


def read_cells(path: Path, columns: Sequence[str] | None, restricted: bool) -> Reading:
    """Read the columns of a table.

    Args:
        path: the file.
        columns: names of the columns; None: all.
        restricted: whether to hide the names of other columns, which are values if the file has no
            header.

    Raises:
        UnreadableTableError: if the format is unsupported, a column is missing, or a row cannot be
            read.
    """
    names: list[str] = []

    def places(present: Sequence[str]) -> list[int]:
        if columns is None and len(present) == 1 and ";" in present[0]:
            raise UnreadableTableError(
                f"has one column, {plain(present[0])}",
                "Separate columns with commas (.csv) or tabs (.tsv).",
            )
        names.extend(columns if columns is not None else map(plain, present))
        return _places(names, restricted, present)

    kept = _PARSED.get()
    parsed = {} if kept is None else kept
    if path not in parsed:
        parsed[path] = _parsed(path)
    choose, lines = parsed[path]
    cells = dict(choose(places))
    return Reading(DataFrame.from_dict(cells, "index", dtype=object, columns=names), lines)


@contextlib.contextmanager
def parsed_once() -> Iterator[None]:
    """Parse no file twice in the block, which keeps the cells of all files in memory."""
    token = _PARSED.set({})
    try:
        yield
    finally:
        _PARSED.reset(token)


def _parsed(path: Path) -> tuple[Choose, Counter[str]]:
    """Return what chooses columns of a file, and its lines that are no row of their own."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    lines: Counter[str] = Counter()
    if ending == ".parquet":
        return functools.partial(_parquet_rows, path), lines
    if ending in (".jsonl", ".ndjson"):
        return _json_rows(_text(path), lines), lines
    if ending in (".csv", ".tsv"):
        return _delimited_rows(_text(path), "\t" if ending == ".tsv" else ",", lines), lines
    raise UnreadableTableError(
        "is not in a supported format; expected .csv, .tsv, .jsonl, .ndjson (also as .gz) or"
        " .parquet",
        "Convert or rename it.",
    )


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
    encoding = "utf-16" if is_utf16 else "utf-8-sig"
    with contextlib.suppress(UnicodeDecodeError):
        text = content.decode(encoding)
        if "\0" not in text:
            return text
    text = content.decode(encoding, errors="surrogateescape")
    # ends at a null, or at how Python represents a byte that is not UTF-8
    before = re.split("[\0\udc80-\udcff]", text, maxsplit=1)[0]
    line = len(re.findall("\r\n?|\n", before)) + 1
    raise UnreadableTableError(
        f"line {line:,} is not UTF-8 or has a null byte; expected text in UTF-8, or UTF-16 with"
        " a byte-order mark",
        "Export it again in UTF-8, and correct damaged characters.",
    )


class _Record(NamedTuple):
    """A row of a delimited file, with the numbers of its first and last line; blank: no fields."""

    line: int
    end: int
    fields: list[str]


def _delimited_rows(text: str, separator: str, account: Counter[str]) -> Choose:
    lines = io.StringIO(text, newline="").readlines()
    declared = re.match(DECLARED, lines[0], re.IGNORECASE) if lines else None
    if declared:
        account["naming the separator"] = 1
        separator = declared[1]
    records = list(_records(lines, separator, len(account)))
    rows = [record for record in records if record.fields]
    header, *rows = rows or [_Record(0, 0, [])]
    account["header"] = header.end - header.line + 1
    account["blank"] = sum(not record.fields for record in records)
    account["within quoted cells"] = sum(row.end - row.line for row in rows)

    def choose(places: Places) -> Cells:
        wanted = places(header.fields)
        for row in rows:
            if len(row.fields) != len(header.fields):
                raise UnreadableTableError(
                    f"line {row.line:,} has {len(row.fields)} fields; expected"
                    f" {len(header.fields)}, as in the header",
                    "Enclose text that contains the separator in quotation marks; end no line with"
                    " a separator.",
                )
        _refuse_swallowed(rows, lines, separator, len(header.fields))
        return ((f"line {row.line:,}", [row.fields[place] for place in wanted]) for row in rows)

    return choose


def _records(lines: list[str], separator: str, skipped: int) -> Iterator[_Record]:
    reader = csv.reader(iter(lines[skipped:]), delimiter=separator, strict=True)
    line = skipped + 1
    try:
        for fields in reader:
            end = skipped + reader.line_num
            yield _Record(line, end, fields)
            line = end + 1
    except csv.Error as error:
        problem = (
            f"line {line:,}: the quotation marks in the row that begins here do not match ({error})"
        )
        raise UnreadableTableError(problem, CLOSE_QUOTES) from error


def _refuse_swallowed(rows: list[_Record], lines: list[str], separator: str, width: int) -> None:
    """Refuse a row of several lines if each looks like a row of its own: with as many fields as the
    header and, unless tabs separate them, which texts seldom contain, with a first or last field
    that other rows have.
    """
    single = [row.fields for row in rows if row.end == row.line]
    firsts = {fields[0] for fields in single} - {""}
    lasts = {fields[-1] for fields in single} - {""}
    for row in (row for row in rows if row.end > row.line):
        split = [line.rstrip("\r\n").split(separator) for line in lines[row.line - 1 : row.end]]
        is_known = (separator == "\t" and width > 1) or any(
            after[0] in firsts or before[-1] in lasts for before, after in itertools.pairwise(split)
        )
        if is_known and {len(fields) for fields in split} == {width}:
            raise UnreadableTableError(
                f"lines {row.line:,} to {row.end:,} are one row in quotation marks, but each looks"
                " like a row of its own",
                CLOSE_QUOTES,
            )


def _json_rows(text: str, account: Counter[str]) -> Choose:
    rows: dict[str, dict[str, object]] = {}
    decoder = json.JSONDecoder(object_pairs_hook=_distinct)
    for number, line in enumerate(io.StringIO(text, newline=""), 1):
        try:
            row = decoder.decode(line) if line.strip() else {}
            if not isinstance(row, dict):
                raise ValueError(f"it is a {type(row).__name__}")
        except (ValueError, RecursionError) as error:
            raise UnreadableTableError(
                f"line {number:,} is not a JSON object ({reason(error)})",
                'Write one object per line, such as {"image": "1.png", "text": "No edema."}.',
            ) from error
        if line.strip():
            rows[f"line {number:,}"] = row
        account["blank"] += not line.strip()
    present = list(dict.fromkeys(name for row in rows.values() for name in row))

    def choose(places: Places) -> Cells:
        names = [present[place] for place in places(present)]
        return ((place, [row.get(name) for name in names]) for place, row in rows.items())

    return choose


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object with plain keys; refuse a repeated key, whose values would replace each
    other.
    """
    row = {_key(name): value for name, value in pairs}
    if len(row) < len(pairs):
        raise ValueError("it has the same key twice")
    return row


def _parquet_rows(path: Path, places: Places) -> Cells:
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        present = parquet.schema_arrow.names
        names = [present[place] for place in places(present)]
        table = parquet.read(columns=names)
    # Convert via Python objects: pandas would turn an integer column with a missing value into
    # floats.
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return ((f"row {number:,} (the first is 0)", row) for number, row in enumerate(rows))

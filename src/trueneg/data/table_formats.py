"""Formats of tables: CSV and TSV, JSON lines, parquet. Each reader returns the unconverted values of the requested columns."""

import codecs
import csv
import gzip
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pandas as pd
import pyarrow.parquet as pq

from trueneg.io.reading import reason

# A byte-order mark tells the encoding. UTF-32's begins with UTF-16's, so it comes first.
MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
OTHER_FILES = {b"PAR1": "a parquet file", b"PK\3\4": "an Excel file or a zip archive", b"\xd0\xcf\x11\xe0": "an old Excel file"}
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
INVISIBLE = "\u200b\u200e\u200f\u2060\ufeff"  # zero-width characters that come with copied text
SPACE = "".join(filter(str.isspace, map(chr, range(0x3001)))) + INVISIBLE
UNDECODED = re.compile("[\udc80-\udcff]")  # how Python represents bytes that are not UTF-8

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # by default, csv refuses cells of more than 131,072 characters


class UnreadableTableError(Exception):
    """A table cannot be read; the arguments are the problem and a sentence with the remedy."""


class Request(NamedTuple):
    """What to read.

    Attributes:
        path: the file.
        columns: names of the columns.
        restricted: whether names of other columns are not shown: without a header, they are values.
    """

    path: Path
    columns: Sequence[str]
    restricted: bool

    def places(self, present: Sequence[str]) -> list[int]:
        """Return the position of each column among the columns of the file; names may differ as :func:`plain` describes."""
        names, wanted = list(map(plain, present)), list(map(plain, self.columns))
        wrong = [column for column, name in zip(self.columns, wanted, strict=True) if names.count(name) != 1]
        if wrong:
            listed = ", ".join(names) or "none"
            other = "Rename the columns, or set their names in the config."
            remedy = encoding_remedy(self.path, names) if UNDECODED.search(listed) else other
            shown = f"{len(names)} names" if self.restricted else listed.encode(errors="backslashreplace").decode()
            raise UnreadableTableError(f"expected exactly one column for each name: {', '.join(wrong)} (found {shown})", remedy)
        return list(map(names.index, wanted))


def plain(text: str) -> str:
    """Return a name in Unicode's composed form, with single spaces, and without surrounding spaces and invisible characters.

    Example:
        >>> plain("Cafe\\u0301\\u00a0 1\\u200b ") == "Caf\\u00e9 1"
        True
    """
    return " ".join(unicodedata.normalize("NFC", text).translate(dict.fromkeys(map(ord, INVISIBLE))).split())


def read_cells(request: Request) -> pd.DataFrame:
    """Read the columns of a table, indexed by the location of each row.

    Raises:
        UnreadableTableError: if the format is unsupported, a column is missing, or a row cannot be read.
    """
    read = READERS.get(format_of(request.path))
    if read is None:
        expected = f"{', '.join(READERS)} (all but the last also as .gz)"
        raise UnreadableTableError(f"is not in a supported format; expected one of {expected}", "Convert or rename it.")
    return read(request)


def format_of(path: Path) -> str:
    """Return the suffix of a table without ``.gz``."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def encoding_remedy(path: Path, texts: Iterable[str]) -> str:
    """Return what to do about texts with bytes that are not UTF-8, and their likely encoding."""
    text = "".join(texts)
    wrong, right = len(UNDECODED.findall(text)), len(re.findall("[^\0-\x7f\udc80-\udcff]", text))
    if right > wrong:
        return "Other characters there are UTF-8, so these are damaged: correct them."
    if 4 * wrong < len(text):  # some accented letters
        return f"It is probably Windows-1252; save it as UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8 {path}"
    return "It is probably in an encoding of another script, such as GB 18030, Shift JIS or Windows-1251; save it as UTF-8."


def _opened(path: Path) -> TextIO:
    """Open a text file, compressed or not."""
    with path.open("rb") as file:
        opened: Callable[..., Any] = gzip.open if file.read(2) == b"\x1f\x8b" else open
    with opened(path, "rb") as file:
        start = file.read(4)
    if start in OTHER_FILES:
        raise UnreadableTableError(f"is {OTHER_FILES[start]}; expected {format_of(path)}", "Export or rename it.")
    encoding = next((name for mark, name in MARKS.items() if start.startswith(mark)), "utf-8-sig")
    if encoding == "utf-8-sig" and b"\0" in start:
        remedy = f"Save it as UTF-8, or convert it: iconv -f UTF-16LE -t UTF-8 {path}"
        raise UnreadableTableError("begins with null bytes, as in UTF-16 without a byte-order mark; expected UTF-8", remedy)
    errors = "surrogateescape" if encoding == "utf-8-sig" else "strict"
    return opened(path, "rt", encoding=encoding, errors=errors, newline="")


def _read_delimited(request: Request) -> pd.DataFrame:
    separator = "\t" if format_of(request.path) == ".tsv" else ","
    with _opened(request.path) as stream:
        _check_header(request, stream.readline(), separator)
        stream.seek(0)
        reader, rows, line = csv.reader(stream, delimiter=separator, strict=True), {}, 1
        try:
            header = next(reader, [])
            places = request.places(header)
            line = reader.line_num + 1
            for row in reader:
                if row and len(row) != len(header):
                    problem = f"line {line:,} has {len(row)} fields; expected {len(header)}, as in the header"
                    remedy = f"Enclose text that contains {SEPARATORS[separator]} in quotation marks; end no line with one."
                    raise UnreadableTableError(problem, remedy)
                if row:
                    rows[f"line {line:,}"] = [row[place] for place in places]
                line = reader.line_num + 1  # a quoted row may span several lines
        except csv.Error as error:
            problem = f"line {line:,}: the quotation marks in the row that begins here do not match ({error})"
            raise UnreadableTableError(problem, "Close each quoted text, and double the quotation marks in it.") from error
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(request.columns), dtype=object)


def _check_header(request: Request, header: str, separator: str) -> None:
    """Refuse a header that has the columns only if it is split at another separator."""
    for other in (separator, *SEPARATORS):
        names = list(map(plain, next(csv.reader([header], delimiter=other), [])))
        if all(names.count(plain(column)) == 1 for column in request.columns):
            if other != separator:
                problem = f"{SEPARATORS[other]} separate its columns; expected {SEPARATORS[separator]}, as its name says"
                convert = f"pd.read_csv({request.path.name!r}, sep={other!r}, dtype=str).to_csv(…)"
                remedy = {",": "Rename it to .csv.", "\t": "Rename it to .tsv."}.get(other, f"Convert it with pandas: {convert}.")
                raise UnreadableTableError(problem, remedy)
            return


def _read_json_lines(request: Request) -> pd.DataFrame:
    rows, expected = {}, 'Write one object per line, such as {"image": "1.png", "text": "No edema."}.'
    with _opened(request.path) as stream:
        for number, line in enumerate(stream, 1):
            try:
                row = json.loads(line, object_pairs_hook=_distinct) if line.strip() else None
            except (ValueError, RecursionError) as error:
                raise UnreadableTableError(f"line {number:,} is not a JSON object ({reason(error)})", expected) from error
            if line.strip() and not isinstance(row, dict):
                raise UnreadableTableError(f"line {number:,} is a JSON {type(row).__name__}; expected an object", expected)
            if row is not None:
                rows[f"line {number:,}"] = row
    present = list(dict.fromkeys(name for row in rows.values() for name in row))
    names = [present[place] for place in request.places(present)]
    cells = [[row.get(name) for name in names] for row in rows.values()]
    return pd.DataFrame(cells, index=list(rows), columns=list(request.columns), dtype=object)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object with plain keys; refuse a repeated key, whose values would replace each other."""
    row = {plain(name): value for name, value in pairs}
    if len(row) < len(pairs):
        raise ValueError("it has the same key twice")
    return row


def _read_parquet(request: Request) -> pd.DataFrame:
    with pq.ParquetFile(request.path, page_checksum_verification=True) as parquet:
        present = parquet.schema_arrow.names
        names = [present[place] for place in request.places(present)]
        table = parquet.read(columns=names)
    # Convert via Python objects: pandas would turn an integer column with a missing value into floats.
    cells = [pd.Series(table.column(name).to_pylist(), dtype=object) for name in names]
    frame = pd.concat(cells, axis=1, keys=request.columns)
    return frame.set_axis([f"row {number:,} (the first is 0)" for number in range(len(frame))])


READERS: dict[str, Callable[[Request], pd.DataFrame]] = {
    **dict.fromkeys((".csv", ".tsv"), _read_delimited),
    **dict.fromkeys((".jsonl", ".ndjson"), _read_json_lines),
    ".parquet": _read_parquet,
}

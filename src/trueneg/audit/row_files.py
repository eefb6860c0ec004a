"""Rows of a table in any format, read in order and written again; those that are not edited stay as
they are, byte by byte in formats with lines.
"""

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from trueneg.data.cells import listed_texts
from trueneg.data.mistakes import COPY_AGAIN
from trueneg.data.table_formats import DECLARED, plain
from trueneg.data.tables import read_table
from trueneg.errors import UserError
from trueneg.io.reading import reading

AT_ONCE = 2_000  # rows
# encodings by what files in them begin with
MARKS = {
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        place: what messages call it.
        raw: as in the file: text or, of parquet, values by column.
        values: by column; empty: no row but a header or a blank line.
    """

    place: str
    raw: Any
    values: Mapping[str, Any]


class DelimitedFile:
    """CSV and TSV."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._separator = "\t" if re.search(r"\.tsv(\.gz)?$", path.name.lower()) else ","

    def rows(self) -> Iterator[Row]:
        """Yield all rows, headers and blank lines."""
        names: list[str] = []
        number = 1
        with _opened(self._path) as stream:
            first = stream.readline()
            if declared := re.match(DECLARED, first, re.IGNORECASE):
                yield Row("", first, {})
                self._separator = declared[1]
                first = stream.readline()
                number = 2
            taken: list[str] = []
            lines = _remembered(itertools.chain([first], stream), taken)
            for fields in csv.reader(lines, delimiter=self._separator, strict=True):
                is_row = bool(names and fields)
                values = dict(zip(names, fields, strict=True)) if is_row else {}
                yield Row(f"line {number}", "".join(taken), values)
                names = names or list(map(plain, fields))
                number += len(taken)
                taken.clear()

    def edited(self, row: Row, changes: Mapping[str, Any]) -> str:
        """Return a row with other values; None: none."""
        written = {name: value or "" for name, value in changes.items()}
        stream = io.StringIO()
        # A lone \r in a cell would be written without quotation marks if lines ended otherwise.
        writer = csv.writer(stream, delimiter=self._separator, lineterminator="\r\n")
        writer.writerow({**row.values, **written}.values())
        return stream.getvalue().removesuffix("\r\n") + _line_end(row)

    def write(self, path: Path, blocks: Iterator[list[Any]]) -> None:
        """Write rows."""
        with _opened(path, "w", self._path) as stream:
            for block in blocks:
                stream.writelines(block)


class JsonLinesFile(DelimitedFile):
    """One JSON object per line."""

    def rows(self) -> Iterator[Row]:
        """Yield all rows, and blank lines."""
        with _opened(self._path) as stream:
            for number, line in enumerate(stream, 1):
                row = json.loads(line) if line.strip() else {}
                values = {plain(name): value for name, value in row.items()}
                yield Row(f"line {number}", line, values)

    def edited(self, row: Row, changes: Mapping[str, Any]) -> str:
        """Return a row with other values."""
        values = json.loads(row.raw)
        changed = {name: changes.get(plain(name), value) for name, value in values.items()}
        return json.dumps(changed, ensure_ascii=False) + _line_end(row)


class ParquetFile:
    """Parquet."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self) -> Iterator[Row]:
        """Yield all rows."""
        numbers = itertools.count()
        with pq.ParquetFile(self._path) as file:
            for batch in file.iter_batches(AT_ONCE):
                for raw in batch.to_pylist():
                    values = {plain(name): value for name, value in raw.items()}
                    yield Row(f"row {next(numbers)} (the first is 0)", raw, values)

    def edited(self, row: Row, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with other values."""
        return {name: changes.get(plain(name), value) for name, value in row.raw.items()}

    def write(self, path: Path, blocks: Iterator[list[Any]]) -> None:
        """Write rows."""
        # what is removed is null
        original = pq.read_schema(self._path)
        schema = pa.schema([field.with_nullable(True) for field in original], original.metadata)
        with pq.ParquetWriter(path, schema) as writer:
            for block in blocks:
                writer.write_table(pa.Table.from_pylist(block, schema))


@contextlib.contextmanager
def reading_rows(path: Path) -> Iterator[None]:
    """Turn any exception in the block, which reads rows, into a user error: that of the reader of
    whole tables, which knows the line, if it cannot read the file, either.
    """
    try:
        with reading(path, "a table", COPY_AGAIN):
            yield
    except UserError as error:
        if error.__cause__ is not None:  # of an exception that is no user error
            read_table(path, None)
        raise


def row_file(path: Path) -> Any:
    """Return the rows of a table in the format that its name tells."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        return ParquetFile(path)
    return (JsonLinesFile if re.search(r"\.(jsonl|ndjson)(\.gz)?$", name) else DelimitedFile)(path)


def without(value: Any, places: set[int]) -> Any:
    """Return a cell without nulls and without its texts at some places: a list, written like the
    cell's, or None.

    Example:
        >>> without(["a", "b"], {0}), without("['a', 'b']", {0}), without("a", {0})
        (['b'], '["b"]', None)
    """
    is_list = isinstance(value, list)
    texts = [each for each in value if each is not None] if is_list else listed_texts(value)
    kept = [text for place, text in enumerate(texts) if place not in places]
    if is_list:
        return kept
    return json.dumps(kept, ensure_ascii=False) if kept else None


def _remembered(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    """Yield lines, and add those that were yielded to a list."""
    for line in lines:
        taken.append(line)
        yield line


def _opened(path: Path, mode: str = "r", like: Path | None = None) -> Any:
    """Open a file as text, with the compression and the encoding of itself or of another one."""
    with (like or path).open("rb") as stream:
        is_compressed = stream.read(2) == b"\x1f\x8b"
    opener: Callable[..., Any] = gzip.open if is_compressed else open
    with opener(like or path, "rb") as stream:
        start = stream.read(3)
    encodings = (encoding for mark, encoding in MARKS.items() if start.startswith(mark))
    return opener(path, f"{mode}t", encoding=next(encodings, "utf-8"), newline="")


def _line_end(row: Row) -> str:
    text: str = row.raw
    return text[len(text.rstrip("\r\n")) :] or "\n"

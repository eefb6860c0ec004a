"""Read reports from a table of the user."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from trueneg.data.reports import Reports
from trueneg.data.reports.sections import parse_sections
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.io.reading import reading


def read_reports(settings: Mapping[str, Any]) -> Reports:
    """Read a CSV or parquet file with one row per report: an id column, a text column and optionally a patient column.

    Raises:
        UserError: if the file is missing or damaged, or lacks a column.
    """
    path, name, text = Path(settings["path"] or ""), settings["id_column"], settings["text_column"]
    patient = settings.get("patient_column") or name
    if name == text:
        raise UserError(f"reports.id_column and reports.text_column are both {name}; expected different columns.")
    columns = list(dict.fromkeys((name, text, patient)))
    expected = f"a CSV or parquet file with the columns {', '.join(columns)}"
    remedy = "Make sure that the file is complete, and that id_column, text_column and patient_column name its columns."
    with reading(path, expected, remedy):
        if path.suffix == ".parquet":
            table = pq.read_table(path, columns=columns).to_pandas(ignore_metadata=True)
        else:  # not usecols: with it, pandas silently truncates rows with too many fields
            table = pd.read_csv(path, dtype=object, keep_default_na=False)[columns]
    texts = table[text].astype(object).where(table[text].notna(), "")
    for report, owner, found in zip(table[name].astype(str), table[patient].astype(str), texts, strict=True):
        yield report, owner, parse_sections(found) if isinstance(found, str) else f"{type(found).__name__} instead of text"


def check_table(settings: Mapping[str, Any]) -> None:
    """Check the columns of the table if it exists; see :func:`read_reports`."""
    if Path(settings["path"] or "").is_file():
        next(read_reports(settings), None)


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """Return the table of reports that the user provides at ``path``."""
    return UserFiles([Path(settings["path"] or "")])

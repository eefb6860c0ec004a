"""Read reports from a table of the user."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueneg.data.reports import Reports
from trueneg.data.reports.sections import FINDINGS, parse_sections
from trueneg.data.tables import read_columns
from trueneg.errors import UserError
from trueneg.io.files import UserFiles


def read_reports(settings: Mapping[str, Any]) -> Reports:
    """Read a CSV or parquet file with one row per report: an id column, a text column and optionally a patient column.

    The sections of English reports are found by their headers; texts in other languages are used whole.

    Raises:
        UserError: if the file is missing or damaged, or lacks a column.
    """
    path, name, text = Path(settings["path"] or ""), settings["id_column"], settings["text_column"]
    patient = settings.get("patient_column") or name
    if name == text:
        raise UserError(f"reports.id_column and reports.text_column are both {name}; expected different columns.")
    table = read_columns(path, dict.fromkeys((name, text, patient)))
    texts = table[text].where(table[text].notna(), "")
    parse = parse_sections if settings.get("language", "en") == "en" else lambda content: {FINDINGS: content.strip()}
    for report, owner, content in zip(table[name].astype(str), table[patient].astype(str), texts, strict=True):
        yield report, owner, parse(content) if isinstance(content, str) else f"{type(content).__name__} instead of text"


def check_table(settings: Mapping[str, Any]) -> None:
    """Check the columns of the table if it exists; see :func:`read_reports`."""
    if Path(settings["path"] or "").is_file():
        next(read_reports(settings), None)


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """Return the table of reports that the user provides at ``path``."""
    return UserFiles([Path(settings["path"] or "")])

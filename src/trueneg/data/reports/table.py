"""Read reports from a table of the user."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.data.reports import Reports
from trueneg.data.reports.sections import FINDINGS, parse_sections
from trueneg.data.table_formats import plain
from trueneg.data.tables import Rows, identifier, read_columns
from trueneg.errors import UserError
from trueneg.io.files import UserFiles

log = logging.getLogger(__name__)


def read_reports(settings: Mapping[str, Any]) -> Reports:
    """Read a table with one row per report: an id column, a text column and optionally a patient column.

    The sections of English reports are found by their headers; texts in other languages are used whole.

    Raises:
        UserError: if the file is missing or damaged, lacks a column, or has rows without an id or patient, or with the id of an
            earlier row, that ``skip_incomplete`` does not leave out.
    """
    table, skipped = _checked(settings)
    if skipped:
        log.warning("%s: %s", settings["path"], skipped)
    is_english = settings.get("language", "en") == "en"
    for report, patient, content in table.itertuples(index=False):
        yield report, patient, parse_sections(content) if is_english else {FINDINGS: content.strip()}


def check_table(settings: Mapping[str, Any]) -> str:
    """Check every row if the table exists; return a sentence with the number of rows left out, by kind (empty if none)."""
    return _checked(settings)[1] if Path(settings["path"] or "").expanduser().is_file() else ""


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """Return the table of reports that the user provides at ``path``."""
    return UserFiles([Path(settings["path"] or "").expanduser()])


def _checked(settings: Mapping[str, Any]) -> tuple[pd.DataFrame, str]:
    """Return the id, patient and text of each usable row, and a sentence about the rows left out (empty if none)."""
    name, text = settings["id_column"], settings["text_column"]
    patient = settings.get("patient_column") or name
    if plain(text) in (plain(name), plain(patient)):
        raise UserError(f"reports.text_column, {text}, is also the column of ids or patients; expected different columns.")
    restricted = settings.get("restricted", False)
    table = read_columns(settings["path"] or "", dict.fromkeys((name, patient, text)), texts=[text], restricted=restricted)
    for column in (name, patient):
        table[column] = table[column].map(identifier)
    rows = Rows(settings["path"], table, settings)
    rows.check_ids(name, "the id of a report; fill it in, or remove the row", "without an id")
    if patient != name:
        rows.check_ids(patient, "a patient or group; fill it in, or remove the row", "without a patient")
    expected = "each report once, but an earlier row is the same; remove one"
    rows.check(name, lambda ids: (ids != "") & rows.table.duplicated(), expected, "that repeat an earlier row")
    expected = "a different id for each report, but an earlier row has the same; correct it"
    rows.check(name, lambda ids: (ids != "") & ids.duplicated() & ~rows.table.duplicated(), expected)
    table, skipped = rows.usable()
    return table[[name, patient, text]], skipped

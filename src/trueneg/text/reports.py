"""Read reports from their sources into one table that accounts for every report."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.io.reading import reading
from trueneg.text import open_i, privacy
from trueneg.text.sections import clean, parse_sections

log = logging.getLogger(__name__)

USED, EMPTY, UNREADABLE = "used", "empty", "unreadable"
COLUMNS = ["report", "patient", "state", "reason", "sections", "text"]
Reports = Iterator[tuple[str, str, Mapping[str, str] | str]]  # id, patient, and the sections or why they are unreadable


def prepare_reports(settings: Mapping[str, Any], path: str | Path) -> None:
    """Read a source's reports, and write them with a record of which can be used.

    Args:
        settings: ``source`` (a key of :data:`SOURCES`), ``path``, and for ``table``: ``id_column``, ``text_column``,
            ``patient_column``, ``restricted``.
        path: parquet file to write: ``report``, ``patient``, ``state`` (used, empty, unreadable), ``reason``, ``sections``
            (the sections that the text comes from), ``text`` (cleaned; empty lines separate paragraphs).

    Raises:
        UserError: if the source is missing or has an unexpected layout, two reports share an id, or no report can be used.
    """
    source, shown = settings["source"], settings["path"] or settings["source"]
    restricted = source == "mimic_cxr" or settings.get("restricted", False)
    reports = pd.DataFrame([_row(*found) for found in SOURCES[source](settings)], columns=COLUMNS)
    twice = reports["report"].duplicated()
    if twice.any():
        raise UserError(f"{shown}: {twice.sum():,} duplicate report ids, first in row {twice.argmax():,} (counting from 0).")
    counts = {state: int((reports["state"] == state).sum()) for state in (USED, EMPTY, UNREADABLE)}
    log.info("%s: %s", source, ", ".join(f"{count:,} {state}" for state, count in counts.items()))
    for (state, reason), names in reports[reports["state"] != USED].groupby(["state", "reason"])["report"]:
        log.info("%s, %s: %d%s", state, reason, len(names), "" if restricted else f" (first: report {names.iloc[0]})")
    if not counts[USED]:
        raise UserError(f"{shown}: none of the {len(reports):,} reports contains usable text.")
    privacy.write_table(reports, path, restricted)


def read_open_i(settings: Mapping[str, Any]) -> Reports:
    """Read the reports inside torchxrayvision's wheel; findings and impression are fields of their XML."""
    for name, report in open_i.read_archive(open_i.find_archive(settings["path"])):
        yield name, name, "invalid XML" if report is None else open_i.section_text(report)


def read_mimic_cxr(settings: Mapping[str, Any]) -> Reports:
    """Read MIMIC-CXR reports (restricted) from the official folder layout, …/files/p10/p10000032/s50414267.txt.

    Raises:
        UserError: if no folder is given, or it contains no reports.
    """
    if settings["path"] is None:
        raise UserError("reports.path is not set; source mimic_cxr needs the folder of the reports (files/p10/…).")
    folder = Path(settings["path"])
    root = next((root for root in (folder / "mimic-cxr-reports" / "files", folder / "files", folder) if root.is_dir()), folder)
    files = sorted(root.glob("p[0-9][0-9]/p*/s*.txt"))
    if not files:
        raise UserError(f"{folder} contains no reports; expected files such as files/p10/p10000032/s50414267.txt.")
    for file in files:
        content: Mapping[str, str] | str
        try:
            content = parse_sections(file.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, OSError) as error:
            content = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "cannot be opened"
        yield file.stem, file.parent.name, content


def read_report_table(settings: Mapping[str, Any]) -> Reports:
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
    """Check the columns of the table if it exists; see :func:`read_report_table`."""
    if Path(settings["path"] or "").is_file():
        next(read_report_table(settings), None)


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """Return the table of reports that the user provides at ``path``."""
    return UserFiles([Path(settings["path"] or "")])


SOURCES = {"open_i": read_open_i, "mimic_cxr": read_mimic_cxr, "table": read_report_table}


def _row(name: str, patient: str, content: Mapping[str, str] | str) -> tuple[str, ...]:
    if isinstance(content, str):
        return name, patient, UNREADABLE, content, "", ""
    # An empty line separates paragraphs; a single line break lies within a paragraph.
    text = "\n\n".join(paragraph for section in content.values() for paragraph in clean(section).split("\n") if paragraph)
    if text:
        return name, patient, USED, "", " + ".join(content), text
    return name, patient, EMPTY, "no words" if content else "no findings, impression or last paragraph", "", ""

"""Read reports from their sources into one table that accounts for every report."""

import logging
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.text import open_i, privacy
from trueneg.text.sections import clean, parse_sections

log = logging.getLogger(__name__)

USED, EMPTY, UNREADABLE = "used", "empty", "unreadable"
COLUMNS = ["report", "patient", "state", "reason", "sections", "text"]
TABLE_COLUMNS = {"id": "report", "text": "text", "patient": "patient"}  # columns of the user's own table


def prepare_reports(settings: Mapping[str, Any], path: str | Path) -> None:
    """Read a source's reports, and write them with a record of which could be used.

    Args:
        settings: ``source`` (a key of :data:`SOURCES`), ``path``, and for ``table``: ``id_column``, ``text_column``,
            ``patient_column``, ``restricted``.
        path: parquet file to write: ``report``, ``patient``, ``state`` (used, empty, unreadable), ``reason``, ``sections``
            (the sections that the text comes from), ``text`` (cleaned; empty lines separate paragraphs).

    Raises:
        UserError: if the source is missing or has an unexpected layout, two reports share an id, or no report can be used.
    """
    reports, restricted = SOURCES[settings["source"]](settings)
    twice = reports["report"].duplicated()
    if twice.any():
        rows = f"row {int(twice.argmax()):,} (the first is 0)"
        raise UserError(f"{settings['path']}: {int(twice.sum()):,} report ids occur twice, first in {rows}; make the ids unique.")
    counts = {state: int((reports["state"] == state).sum()) for state in (USED, EMPTY, UNREADABLE)}
    log.info("%s: %s", settings["source"], ", ".join(f"{count:,} {state}" for state, count in counts.items()))
    for (state, reason), names in reports[reports["state"] != USED].groupby(["state", "reason"])["report"]:
        log.info("%s, %s: %d (first: report %s)", state, reason, len(names), names.iloc[0])
    if not counts[USED]:
        source = settings["path"] or settings["source"]
        raise UserError(f"{source}: none of the {len(reports):,} reports has text that can be used.")
    privacy.write_table(reports, path, restricted)


def read_open_i(settings: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
    """Read the reports inside torchxrayvision's wheel; findings and impression are fields of their XML."""
    rows: list[tuple[str, ...]] = []
    for name, report in open_i.read_archive(open_i.find_archive(settings["path"])):
        if report is None:
            rows.append((name, name, UNREADABLE, "is not valid XML", "", ""))
        else:
            rows.append(_row(name, name, open_i.section_text(report)))
    return pd.DataFrame(rows, columns=COLUMNS), False


def read_mimic_cxr(settings: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
    """Read MIMIC-CXR reports (restricted) from the official folder layout, …/files/p10/p10000032/s50414267.txt.

    Raises:
        UserError: if no folder is given, or it contains no reports.
    """
    if settings["path"] is None:
        raise UserError("reports.path is not given; source mimic_cxr needs the folder that holds the reports (files/p10/…).")
    folder = Path(settings["path"])
    root = next((root for root in (folder / "mimic-cxr-reports" / "files", folder / "files", folder) if root.is_dir()), folder)
    files = sorted(root.glob("p[0-9][0-9]/p*/s*.txt"))
    if not files:
        raise UserError(f"{folder}: there are no reports; expected files/p10/p10000032/s50414267.txt and the like.")
    rows: list[tuple[str, ...]] = []
    for file in files:
        name, patient = file.stem, file.parent.name
        try:
            rows.append(_row(name, patient, parse_sections(file.read_text(encoding="utf-8"))))
        except (UnicodeDecodeError, OSError) as error:
            reason = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else "cannot be opened"
            rows.append((name, patient, UNREADABLE, reason, "", ""))
    return pd.DataFrame(rows, columns=COLUMNS), True


def read_report_table(settings: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
    """Read a CSV or parquet file with one row per report: an id column, a text column and optionally a patient column.

    Raises:
        UserError: if the file is missing or damaged, or lacks a column.
    """
    path = Path(settings["path"] or "")
    names = {settings[f"{name}_column"]: column for name, column in TABLE_COLUMNS.items() if settings.get(f"{name}_column")}
    if "text" not in names.values() or "report" not in names.values():
        raise UserError("reports.id_column and reports.text_column name the same column, expected one for each.")
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path, columns=list(names)).to_pandas(ignore_metadata=True)
        else:  # not usecols: with it, pandas silently truncates rows with too many fields
            table = pd.read_csv(path, dtype=object, keep_default_na=False)[list(names)]
    except (pa.ArrowException, OSError, EOFError, zlib.error, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{path}: cannot be read as a CSV or parquet file with the columns {', '.join(names)} ({reason}). Get a whole copy, "
            "or name its columns in id_column, text_column and patient_column."
        ) from error
    table = table.rename(columns=names).astype({"report": str})
    patients = table["patient"].astype(str) if "patient" in table else table["report"]
    rows = []
    for name, patient, text in zip(table["report"], patients, table["text"], strict=True):
        if isinstance(text, str) or pd.isna(text):
            rows.append(_row(name, patient, parse_sections(text) if isinstance(text, str) else {}))
        else:
            rows.append((name, patient, UNREADABLE, f"is not text but {type(text).__name__}", "", ""))
    return pd.DataFrame(rows, columns=COLUMNS), bool(settings.get("restricted"))


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """Return the user's own table of reports, ``path``."""
    return UserFiles([Path(settings["path"] or "")])


SOURCES: Mapping[str, Callable[[Mapping[str, Any]], tuple[pd.DataFrame, bool]]] = {
    "open_i": read_open_i,
    "mimic_cxr": read_mimic_cxr,
    "table": read_report_table,
}


def _row(name: str, patient: str, sections: Mapping[str, str]) -> tuple[str, ...]:
    # An empty line separates paragraphs; a single line break lies within a paragraph.
    text = "\n\n".join(paragraph for section in sections.values() for paragraph in clean(section).split("\n") if paragraph)
    if text:
        return name, patient, USED, "", " + ".join(sections), text
    return name, patient, EMPTY, "has no findings, impression or last paragraph" if not sections else "has no words", "", ""

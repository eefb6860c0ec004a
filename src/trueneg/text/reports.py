"""Reports from their sources, as one table in which every report is accounted for."""

import logging
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


def prepare_reports(settings: Mapping[str, Any], path: str | Path) -> None:
    """Read a source's reports, and write them with the account of what could be used.

    Args:
        settings: ``source`` (a key of :data:`SOURCES`), ``path``, and for ``table``: ``id_column``, ``text_column``,
            ``patient_column``, ``restricted``.
        path: parquet file to write: ``report``, ``patient``, ``state`` (used, empty, unreadable), ``reason``, ``sections``
            (which the text is made of), ``text`` (cleaned; a paragraph a line).

    Raises:
        UserError: if the source is missing or of another layout, two reports have one id, or none can be used.
    """
    reports, restricted = SOURCES[settings["source"]](settings)
    twice = reports["report"].duplicated()
    if twice.any():
        rows = f"row {int(twice.argmax()):,} (the first is 0)"
        raise UserError(f"{settings['path']}: {int(twice.sum()):,} report ids occur twice, first in {rows}; make the ids unique.")
    counts = {state: int((reports["state"] == state).sum()) for state in (USED, EMPTY, UNREADABLE)}
    log.info("%s: %s", settings["source"], ", ".join(f"{count:,} {state}" for state, count in counts.items()))
    for (state, reason), rows in reports[reports["state"] != USED].groupby(["state", "reason"]):
        log.info("%s, %s: %d (first: report %s)", state, reason, len(rows), rows["report"].iloc[0])
    if not counts[USED]:
        source = settings["path"] or settings["source"]
        raise UserError(f"{source}: none of the {len(reports):,} reports has text that can be used.")
    privacy.write_table(reports, path, restricted)


def read_open_i(settings: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
    """The reports inside torchxrayvision's wheel: findings and impression are fields of their XML."""
    rows = []
    for name, report, problem in open_i.read_archive(open_i.find_archive(settings["path"])):
        if report is None:
            rows.append((name, name, UNREADABLE, "is not valid XML", "", ""))
            log.warning("report %s %s", name, problem)
        else:
            rows.append(_row(name, name, open_i.section_text(report)))
    return pd.DataFrame(rows, columns=COLUMNS), False


def read_mimic_cxr(settings: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
    """The official folder layout: …/files/p10/p10000032/s50414267.txt; restricted.

    Raises:
        UserError: if no folder is given, or it holds no report.
    """
    if settings["path"] is None:
        raise UserError("reports.path is not given; source mimic_cxr needs the folder that holds the reports (files/p10/…).")
    folder = Path(settings["path"])
    root = next((root for root in (folder / "mimic-cxr-reports" / "files", folder / "files", folder) if root.is_dir()), folder)
    files = sorted(root.glob("p[0-9][0-9]/p*/s*.txt"))
    if not files:
        raise UserError(f"{folder}: there are no reports; expected files/p10/p10000032/s50414267.txt and the like.")
    rows = []
    for file in files:
        name, patient = file.stem, file.parent.name
        try:
            rows.append(_row(name, patient, parse_sections(file.read_text(encoding="utf-8"))))
        except UnicodeDecodeError:
            rows.append((name, patient, UNREADABLE, "is not UTF-8", "", ""))
        except OSError:
            rows.append((name, patient, UNREADABLE, "cannot be opened", "", ""))
    return pd.DataFrame(rows, columns=COLUMNS), True


def read_report_table(settings: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
    """A CSV or parquet file with a row a report: an id and a text column, and perhaps a patient column.

    Raises:
        UserError: if the file is not there, is no table, or lacks a column.
    """
    path = Path(settings["path"] or "")
    columns = {"id_column": "report", "text_column": "text", "patient_column": "patient"}
    wanted = {settings[key]: name for key, name in columns.items() if settings.get(key) is not None}
    try:
        if path.suffix == ".parquet":
            present = pq.read_schema(path).names
            table = pq.read_table(path, columns=[name for name in wanted if name in present]).to_pandas(ignore_metadata=True)
        elif path.name.endswith((".csv", ".csv.gz")):
            table = pd.read_csv(path, dtype=object, keep_default_na=False)
        else:
            raise UserError(f"reports.path is {str(path)!r}, expected a .csv, .csv.gz or .parquet file.")
    except FileNotFoundError as error:
        raise UserError(f"{path}: is not there; source table needs a CSV or parquet file of reports.") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a table ({type(error).__name__}); get a whole copy.") from error
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise UserError(f"{path}: has no column {', '.join(missing)} (found {', '.join(table.columns)}); name yours in text.")
    table = table[list(wanted)].rename(columns=wanted)
    names = table["report"].astype(str)
    patients = table["patient"].astype(str) if "patient" in table else names
    rows = []
    for name, patient, text in zip(names, patients, table["text"], strict=True):
        if isinstance(text, str) or pd.isna(text):
            rows.append(_row(name, patient, parse_sections(text) if isinstance(text, str) else {}))
        else:
            rows.append((name, patient, UNREADABLE, f"is not text but {type(text).__name__}", "", ""))
    return pd.DataFrame(rows, columns=COLUMNS), bool(settings.get("restricted"))


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The user's own table of reports, ``path``."""
    return UserFiles([Path(settings["path"] or "")])


SOURCES: Mapping[str, Callable[[Mapping[str, Any]], tuple[pd.DataFrame, bool]]] = {
    "open_i": read_open_i,
    "mimic_cxr": read_mimic_cxr,
    "table": read_report_table,
}


def _row(name: str, patient: str, sections: Mapping[str, str]) -> tuple[str, ...]:
    # An empty line between paragraphs: a lone line break is within one.
    text = "\n\n".join(paragraph for section in sections.values() for paragraph in clean(section).split("\n") if paragraph)
    if text:
        return name, patient, USED, "", " + ".join(sections), text
    return name, patient, EMPTY, "has no findings, impression or last paragraph" if not sections else "has no words", "", ""

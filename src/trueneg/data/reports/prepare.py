"""Read reports from their sources into one table that accounts for every report."""

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path

from pandas import DataFrame

from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.sections import Section
from trueneg.text.cleaning import clean
from trueneg.text.sentences import USED

log = logging.getLogger(__name__)

EMPTY = "empty"
UNREADABLE = "unreadable"
COLUMNS = ["report", "patient", "state", "reason", "sections", "text"]


def prepare_reports(settings: Section, path: str | Path) -> None:
    """Read a source's reports, and write them with a record of which can be used.

    Args:
        settings: ``source`` (a module of :mod:`trueneg.data.reports`) and ``path``.
        path: parquet file to write: ``report``, ``patient``, ``state`` (used, empty, unreadable),
            ``reason``, ``sections`` (the sections that the text comes from), ``text`` (cleaned;
            empty lines separate paragraphs).

    Raises:
        UserError: if the source is missing or has an unexpected layout, two reports share an id, or
            no report can be used.
    """
    source = settings["source"]
    shown = settings["path"] or settings["source"]
    restricted = source == "mimic_cxr"
    read = importlib.import_module(f"trueneg.data.reports.{source}").read_reports
    reports = DataFrame([_row(*report) for report in read(settings)], columns=COLUMNS)
    twice = reports["report"].duplicated()
    if twice.any():
        raise UserError(
            f"{shown}: {twice.sum():,} duplicate report ids, first in row {twice.argmax():,}"
            " (counting from 0)."
        )
    counts = {state: int((reports["state"] == state).sum()) for state in (USED, EMPTY, UNREADABLE)}
    shares = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    log.info(f"{source}: {shares}")
    others = reports[reports["state"] != USED]
    for (state, reason), names in others.groupby(["state", "reason"])["report"]:
        first = "" if restricted else f" (first: report {names.iloc[0]})"
        log.info(f"{state}, {reason}: {len(names)}{first}")
    if not counts[USED]:
        raise UserError(f"{shown}: none of the {len(reports):,} reports contains usable text.")
    privacy.write_table(reports, path, restricted)


def _row(name: str, patient: str, content: Mapping[str, str] | str) -> tuple[str, ...]:
    if isinstance(content, str):
        return name, patient, UNREADABLE, content, "", ""
    # An empty line separates paragraphs; a single line break lies within a paragraph.
    paragraphs = (
        paragraph for section in content.values() for paragraph in clean(section).split("\n")
    )
    text = "\n\n".join(filter(None, paragraphs))
    if text:
        return name, patient, USED, "", " + ".join(content), text
    return (
        name,
        patient,
        EMPTY,
        "no words" if content else "no findings, impression or last paragraph",
        "",
        "",
    )

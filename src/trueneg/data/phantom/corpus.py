"""The phantom's reports as a text source, with the ground truth about their sentences."""

import logging
from collections.abc import Mapping
from pathlib import Path

from trueneg.data.phantom.reports import phantom_reports
from trueneg.data.reports.prepare import COLUMNS, USED
from trueneg.io import privacy
from trueneg.specs.sections import Section

log = logging.getLogger(__name__)


def prepare_phantom(settings: Section, seed: int, tables: Mapping[str, str | Path]) -> None:
    """Draw the phantom's reports and write them in the format of
    :func:`trueneg.data.reports.prepare.prepare_reports`.

    Args:
        settings: ``reports`` (number of reports), ``exponent``, ``correlation``; see
            :func:`~trueneg.data.phantom.reports.phantom_reports`. If it contains ``seed``, that
            value replaces the argument.
        seed: seed of all random draws.
        tables: three parquet files to write: ``reports``; ``assigned`` with the ``report``,
            ``index`` and ``class`` of every sentence; ``classes`` with the ``class``,
            ``probability``, ``kind`` and other properties of each class.
    """
    made = phantom_reports(
        settings["reports"],
        settings.get("seed", seed),
        settings["exponent"],
        settings["correlation"],
    )
    reports = made.reports.assign(
        patient=made.reports["report"], state=USED, reason="", sections="findings"
    )[COLUMNS]
    log.info(f"phantom: {len(reports):,} reports, {len(made.sentences):,} sentences")
    assigned = made.sentences[["report", "index", "class"]]
    for name, frame in (("reports", reports), ("assigned", assigned), ("classes", made.classes)):
        privacy.write_table(frame, tables[name], restricted=False)
